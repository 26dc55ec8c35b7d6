"""The other commands of kcheck as functions: lint, calibrate, exec."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

from kcheck.api.arguments import count_of, seed_of
from kcheck.api.running import Sanitize, device_of, sanitize_levels
from kcheck.api.spec import SpecLike, runnable
from kcheck.device import choose
from kcheck.driver.finding_log import collected
from kcheck.driver.session import environment
from kcheck.errors import UserError
from kcheck.model import Calibration, Finding
from kcheck.model.limits import TIMEOUT
from kcheck.model.metrics import Metrics
from kcheck.runner import Calibrator, Options, run
from kcheck.runner.calibrate import measured_spec
from kcheck.runner.linting import lint_spec
from kcheck.version import __version__


@dataclass(frozen=True, eq=False)
class Lint:
    """Metrics of the compiled kernels of a spec.

    Attributes:
        metrics: one for each kernel, target and combination of argument types: registers, spills, shared memory,
            instructions by kind, occupancy, and advice.
        findings: violations of the spec's ``artifact``.
        notes: what was not examined.
    """

    metrics: tuple[Metrics, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the kernels compile and nothing violates ``artifact``."""
        return not self.findings and not any(metric.problem for metric in self.metrics)


def lint(spec: SpecLike, *, targets: Sequence[str] = (), sass: bool = False) -> Lint:
    """Compile the kernels of a spec as for a GPU and measure them. Needs no GPU.

    >>> import kcheck
    >>> found = kcheck.lint("specs/softmax.yaml")
    >>> found.ok, found.metrics[0].kernel, found.metrics[0].resources.spills
    (True, 'softmax', 0)

    Args:
        spec: a spec, or the path of a spec file.
        targets: such as ``["sm_80", "sm_90"]``; default: those of the spec or the project.
        sass: examine the machine code, too; needs nvdisasm.

    Raises:
        SpecError: the spec is invalid.
        KernelError: a kernel's file cannot be loaded.
    """
    model = runnable(spec)
    device = choose("cpu", tuple(targets)) if model.launcher is not None else None
    found = lint_spec(model, device, tuple(targets), sass=sass)
    return Lint(found.metrics, found.findings, found.notes)


def calibrate(
    spec: SpecLike,
    *,
    cases: int = 100,
    seed: int | None = None,
    device: str = "auto",
    timeout: float | None = TIMEOUT,
) -> Calibration:
    """Measure the errors of a correct kernel. Nothing is written.

    ``kcheck calibrate`` writes the same numbers to calibration.yaml, for ``tolerance: calibrated``.

    >>> import kcheck
    >>> measured = kcheck.calibrate("specs/stencil.yaml", cases=30)
    >>> measured.envelopes["float32"].envelope < 1e-4
    True

    Args:
        spec: a spec, or the path of a spec file.
        cases: the number of cases; each output dtype needs at least 20.
        seed: the master seed; default: derived from the spec's seed, so that the cases differ from those of a run.
        device, timeout: as for :func:`kcheck.check`.

    Raises:
        SpecError: the spec is invalid.
        UserError: the kernel fails a case, or there are too few cases.
    """
    wanted = None if seed is None else seed_of(seed, "seed")
    model = measured_spec(runnable(spec), count_of(cases, "cases"), wanted)
    calibrator = Calibrator([model])
    chosen = device_of(model, device)
    for event in run([model], Options(command="kcheck.calibrate", timeout=timeout), chosen):
        measured = calibrator.handle(event)
        if measured is None:
            continue
        if measured.refusal or measured.nothing:
            why = measured.refusal or "no output is floating point"
            raise UserError(f"{model.path}: not calibrated: {why}")
        versions = {"kcheck": __version__, "numba-cuda": metadata.version("numba-cuda")}
        return measured.calibration(chosen.name, versions)
    raise KeyboardInterrupt


@dataclass(frozen=True, eq=False)
class Execution:
    """A program that ran on the cpu device.

    Attributes:
        returncode: the exit code of the program; negative: the signal that killed it.
        findings: one for each rule and line, with the number of times it was found.
        stdout, stderr: what the program printed, if ``capture`` was set; otherwise empty.
    """

    returncode: int
    findings: tuple[Finding, ...]
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """Whether the program returned 0 and no finding is an error."""
        return self.returncode == 0 and not any(finding.severity == "error" for finding in self.findings)


_NEED_A_SPEC = ("unwritten", "mutated", "nondeterministic")


def exec(  # noqa: A001  # the name of the command
    command: Sequence[str],
    *,
    sanitize: Sanitize = None,
    cc: str | None = None,
    launch_timeout: float | None = None,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    capture: bool = False,
) -> Execution:
    """Run a numba.cuda or Triton program unchanged on the cpu device, without a GPU, as ``kcheck exec`` does.

    >>> import kcheck, sys
    >>> kcheck.exec([sys.executable, "-c", "print('no kernel')"], capture=True).stdout
    'no kernel\\n'

    Args:
        command: the program and its arguments.
        sanitize: as for :func:`kcheck.check`; by default memcheck and synccheck.
        cc: compute capability of the device, such as ``9.0``.
        launch_timeout: seconds for one launch.
        timeout: seconds for the program.
        env: its environment variables; default: those of this process.
        capture: return what it prints, instead of printing it.

    Raises:
        UserError: a sanitizer is unknown or needs a spec, or the command is not a list, or cannot be started.
        subprocess.TimeoutExpired: the program did not end in time.
    """
    words = [] if isinstance(command, str) else list(command)
    if not words:
        raise UserError(f"the command is {command!r}; give a list of words, such as ['python', 'train.py']")
    levels = sanitize_levels(sanitize)
    if isinstance(sanitize, str) and sanitize == "all":
        levels = {name: level for name, level in levels.items() if name not in _NEED_A_SPEC}
    for name in levels:
        if name in _NEED_A_SPEC:
            raise UserError(f"{name} needs a spec that names the arrays; use kcheck.check")
    with tempfile.TemporaryDirectory(prefix="kcheck-exec-") as folder:
        file = os.path.join(folder, "findings.jsonl")
        variables = environment(dict(os.environ if env is None else env), file, cc, launch_timeout, levels)
        try:
            done = subprocess.run(
                words, env=variables, capture_output=capture, text=True, timeout=timeout, check=False
            )
        except OSError as error:
            raise UserError(f"{words[0]}: {error.strerror}; give a command, such as python") from error
        return Execution(done.returncode, tuple(collected(file)), done.stdout or "", done.stderr or "")
