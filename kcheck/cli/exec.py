"""``kcheck exec -- python script.py`` and ``kcheck exec -- ./program``: any numba.cuda, Triton or CUDA C++ program
on the cpu device, its child processes included.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from kcheck.cli.exits import Exit
from kcheck.cli.outputs import ReportFile
from kcheck.cli.sanitize import Sanitize
from kcheck.model import Level

_NEEDS_SPEC = "it needs a spec that names the arrays; use `kcheck run`"
_SHORT, _MOST = "/tmp", 60
"""The path of a socket has at most 107 bytes."""
SANITIZE = Sanitize(
    ("memcheck", "racecheck", "initcheck", "synccheck", "overflow"),
    dict.fromkeys(("unwritten", "mutated", "nondeterministic"), _NEEDS_SPEC),
    apart=("leakcheck",),  # many good programs leave their memory to the end of the process
)


@click.command(
    "exec",
    context_settings={"allow_interspersed_args": False},
    short_help="Run a numba.cuda, Triton or CUDA C++ program on the cpu device.",
)
@click.option(
    "--cc", metavar="CC", help="Compute capability of the device, such as 9.0 (default: KCHECK_CC, or 8.0)."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Time limit per launch (default: KCHECK_TIMEOUT, or no limit).",
)
@click.option(
    "--sanitize",
    type=SANITIZE,
    multiple=True,
    metavar="NAME[=LEVEL]",
    help="Set the level of a sanitizer: error, warn, off (default: error). NAME is "
    f"{', '.join(SANITIZE.names)}, or all. Repeatable. memcheck and synccheck are on by default.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the findings to FILE, one line of JSON per rule and place.",
)
@click.option(
    "--torch-cuda",
    type=click.Choice(["on", "off"]),
    help="Treat PyTorch's cuda device as host memory, so that programs for a GPU run unchanged (default: on).",
)
@click.option(
    "--torch-compile",
    type=click.Choice(["on", "off"]),
    help="Compile functions under torch.compile, and check the kernels that it generates (default: on).",
)
@click.option(
    "--autotune",
    type=click.IntRange(min=1),
    metavar="N",
    help="Let Triton's autotuner try the first N configurations of a kernel that run (default: all).",
)
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def command(
    ctx: click.Context,
    cc: str | None,
    timeout: float | None,
    sanitize: tuple[tuple[str, Level], ...],
    report: Path | None,
    torch_cuda: str | None,
    torch_compile: str | None,
    autotune: int | None,
    words: Sequence[str],
) -> None:
    """Run a numba.cuda, Triton or CUDA C++ program on the cpu device, without a GPU and without changes.

    \b
    kcheck exec -- python script.py
    kcheck exec -- pytest tests
    kcheck exec -- ./program
    kcheck exec --sanitize racecheck -- python script.py

    With PyTorch, tensors on device="cuda" are in host memory, where Triton kernels can access them.

    Findings go to stderr, once per rule and source line, with counts at the end. The exit code is that of COMMAND,
    or 1 if that is 0 and an error was found, or 2 if that is 0 and COMMAND never used the device.
    """
    from kcheck.driver import smi
    from kcheck.driver.finding_log import collected, summary
    from kcheck.driver.install import read_cc
    from kcheck.driver.session import environment, mark_of_use, what_is_absent
    from kcheck.report.json_report import finding_document
    from kcheck.triton.session import AUTOTUNE, TORCH_COMPILE, TORCH_CUDA

    read_cc(cc or "", "--cc ")
    with tempfile.TemporaryDirectory(prefix="kcheck-exec-") as folder:
        findings = os.path.join(folder, "findings.jsonl")
        levels = SANITIZE.levels(sanitize)
        file = None if report is None else ReportFile(report, "--report")
        try:
            variables = environment(dict(os.environ), findings, cc, timeout, levels)
            if torch_cuda is not None:
                variables[TORCH_CUDA] = torch_cuda
            if torch_compile is not None:
                variables[TORCH_COMPILE] = torch_compile
            if autotune is not None:
                variables[AUTOTUNE] = str(autotune)
            variables[smi.NVML] = smi.ToldDevice.of(variables).text
            paths = (str(smi.write_command(Path(folder, "bin"))), variables.get("PATH"))
            variables["PATH"] = os.pathsep.join(filter(None, paths))
            code = _with_engines(words, variables, folder)
            found, used = collected(findings), os.path.exists(mark_of_use(findings))
            absent = what_is_absent(findings)
            if file is not None:
                file.stream.writelines(json.dumps(finding_document(finding)) + "\n" for finding in found)
                file.commit()
        finally:
            if file is not None:
                file.discard()
    if absent and not used:
        click.echo(absent, err=True)
    if used and "racecheck" not in levels:
        click.echo("kcheck: races were not checked; add --sanitize racecheck", err=True)
    for line in summary(found):
        click.echo(line, err=True)
    if not used and not absent and code == 0:
        click.echo(_unused(words), err=True)
    if not used and code == 0:
        ctx.exit(Exit.USAGE)
    ctx.exit(code or int(any(finding.severity == "error" for finding in found)))


def _unused(words: Sequence[str]) -> str:
    """The message about a program that never used the device, so that nothing was checked."""
    return (
        f"kcheck: {shlex.join(words)} did not use the device, so nothing was checked: kcheck exec runs Python "
        "programs that use numba.cuda, Triton, CuPy or cuda.core, and programs that nvcc built (docs/programs.md)"
    )


def _why_not(words: Sequence[str], fault: OSError) -> str:
    if words[0].endswith(".py") and os.path.isfile(words[0]):
        return f"this is a Python file; run it with: kcheck exec -- python {shlex.join(words)}"
    return f"{fault.strerror}; give a command, such as python"


def _with_engines(words: Sequence[str], variables: dict[str, str], folder: str) -> int:
    """Run a command whose programs get a device process when they need one."""
    from kcheck.driver.cudart import client_library, management_library, runtime_library
    from kcheck.driver.engines import Engines
    from kcheck.driver.install import settings
    from kcheck.driver.session import mark_of_use
    from kcheck.errors import DeviceUnavailable

    try:
        cache = settings(variables).cache
        runtimes = [runtime_library(cache, major, variables) for major in (13, 12)]
        libraries = [client_library(cache, variables), *runtimes, management_library(cache, variables)]
    except DeviceUnavailable as fault:  # Python programs do not need it
        code = _run(words, variables)
        if not os.path.exists(mark_of_use(variables["KCHECK_EXEC"])):
            click.echo(f"kcheck: {fault}", err=True)
        return code
    with tempfile.TemporaryDirectory(prefix="kcheck-", dir=_SHORT if len(folder) > _MOST else folder) as sockets:
        engines = Engines(sockets, variables, libraries)
        try:
            return _run(words, engines.variables)
        finally:
            engines.close()


def _run(words: Sequence[str], environment: dict[str, str]) -> int:
    """The exit code of a command; 128 plus the number of the signal that killed it, as in a shell."""
    try:
        child = subprocess.Popen(words, env=environment)
    except OSError as fault:
        raise click.UsageError(f"{words[0]}: {_why_not(words, fault)}") from fault
    # The terminal sends Ctrl-C to the child as well, which handles it. SIGTERM is passed on.
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, frame: child.send_signal(number)),
    }
    try:
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code
