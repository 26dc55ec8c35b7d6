"""Run a spec from Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

from kcheck.api.arguments import count_of, seed_of
from kcheck.api.report import Report
from kcheck.api.spec import Spec, SpecLike, runnable, with_levels
from kcheck.device import Device, choose, choose_for
from kcheck.errors import UserError
from kcheck.model import LEVELS, SANITIZERS, Level, OpSpec, as_set
from kcheck.model.levels import of_all
from kcheck.model.limits import TIMEOUT
from kcheck.nearest import did_you_mean
from kcheck.runner import Options, run

Sanitize: TypeAlias = str | Iterable[str] | Mapping[str, str] | None
"""Names of sanitizers, ``"all"``, or levels by name."""


def check(
    spec: SpecLike,
    *,
    kernel: Any = None,
    cases: int | None = None,
    seed: int | None = None,
    device: str = "auto",
    sanitize: Sanitize = None,
    timeout: float | None = TIMEOUT,
) -> Report:
    """Run the cases of a spec and check the results, as ``kcheck run`` does. Nothing is stored.

    >>> import kcheck
    >>> report = kcheck.check("specs/buggy/dequantize_int8_tail.yaml", cases=5)
    >>> report.ok, report
    (False, <kcheck.Report: 6 cases, 5 failed, on the cpu>)
    >>> failure = report.failures[0]
    >>> failure.rule, failure.case.dims, failure.inputs["q"].shape
    ('memcheck', {'M': 5, 'N': 33}, (5, 33))

    Args:
        spec: a spec, or the path of a spec file.
        kernel: a kernel, or ``file.py:name``, instead of the one in the spec file.
        cases: the number of cases; default: the spec's.
        seed: the master seed of the cases; default: the spec's.
        device: ``auto``, ``gpu``, ``cpu`` or ``simulator``. The cpu device must be chosen before anything imports
            ``numba.cuda``: see :func:`kcheck.use`.
        sanitize: sanitizers to check every case with, at level error: a name, names, ``"all"``, or a mapping of
            names to ``error``, ``warn`` or ``off``.
        timeout: seconds for the launch of one case; None: no limit.

    Returns:
        A report. A wrong kernel is a result, not an exception: see ``report.ok`` and ``report.failures``.

    Raises:
        SpecError: the spec is invalid, or code that it names cannot be loaded.
        DeviceUnavailable: the device is not available in this process.
        UserError: another argument is not allowed.
    """
    model = runnable(spec, kernel)
    levels = sanitize_levels(sanitize)
    options = Options(
        command="kcheck.check",
        count=None if cases is None else count_of(cases, "cases"),
        seed=None if seed is None else seed_of(seed, "seed"),
        timeout=timeout,
        capture=True,
        device="" if device == "auto" else device,
        sanitize=levels,
    )
    built = isinstance(spec, Spec) and spec._file is None
    call = f"kcheck.reproduce(spec, {{seed}}, device={device!r})" if built else ""
    return Report(run([model], options, device_of(model, device)), call)


def use(device: str = "auto") -> str:
    """Choose the device of this process. Call it before anything imports ``numba.cuda``.

    A program that defines kernels with ``@cuda.jit`` imports ``numba.cuda``, which selects its driver when it is
    imported. Without a GPU, kcheck's driver must be installed earlier.

    >>> import kcheck
    >>> kcheck.use("cpu")
    'cpu'

    Args:
        device: ``auto``, ``gpu``, ``cpu`` or ``simulator``.

    Returns:
        The device that was chosen.

    Raises:
        DeviceUnavailable: the device is not available, or ``numba.cuda`` is already imported for another one.
    """
    return choose(device).name


def device_of(model: OpSpec, device: str) -> Device:
    """The device that a spec runs on."""
    targets = () if model.artifact is None else model.artifact.targets[:1]
    return choose_for([model], device, targets)


def sanitize_levels(sanitize: Sanitize) -> dict[str, Level]:
    """The levels in a ``sanitize`` argument.

    Raises:
        UserError: a name or a level is unknown.
    """
    if sanitize is None:
        return {}
    if isinstance(sanitize, str):
        sanitize = [sanitize]
    pairs = sanitize if isinstance(sanitize, Mapping) else dict.fromkeys(sanitize, "error")
    levels: dict[str, Level] = {}
    for name, level in pairs.items():
        if name not in (*SANITIZERS, "all"):
            fix = did_you_mean(name, SANITIZERS) or f"the sanitizers are {', '.join(SANITIZERS)}, or all"
            raise UserError(f"unknown sanitizer {name!r}; {fix}")
        if level not in LEVELS:
            raise UserError(f"sanitizer {name}: unknown level {level!r}; use error, warn or off")
        chosen = as_set(cast(Level, level))
        levels |= dict.fromkeys(SANITIZERS, of_all(chosen)) if name == "all" else {name: chosen}
    return levels


def checked_spec(model: OpSpec, sanitize: Sanitize) -> OpSpec:
    """A spec with the levels of a ``sanitize`` argument."""
    return with_levels(model, sanitize_levels(sanitize))
