"""``kcheck exec -- python script.py``: any numba.cuda program on the cpu device, its child processes included."""

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

from kcheck.cli.outputs import ReportFile
from kcheck.cli.sanitize import Sanitize
from kcheck.model import Level

_NEEDS_SPEC = "a program has no spec that says which array is what; `kcheck run` checks it"
SANITIZE = Sanitize(
    ("memcheck", "racecheck", "initcheck", "synccheck", "overflow"),
    dict.fromkeys(("unwritten", "mutated", "nondeterministic"), _NEEDS_SPEC),
)


@click.command(
    "exec",
    context_settings={"allow_interspersed_args": False},
    short_help="Run any numba.cuda program on the cpu device.",
)
@click.option(
    "--cc", metavar="CC", help="Compute capability of the device, such as 9.0 (KCHECK_CC; 8.0 unless said)."
)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds that one launch may take.")
@click.option(
    "--sanitize",
    type=SANITIZE,
    multiple=True,
    metavar="NAME[=LEVEL]",
    help="Switch a sanitizer on, or give it a level: error, warn, off; NAME alone is error. "
    f"{', '.join(SANITIZE.names)}, or all; repeatable. memcheck and synccheck are on unless they are off.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write what was found there, a line of JSON for each rule and place.",
)
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def command(
    ctx: click.Context,
    cc: str | None,
    timeout: float | None,
    sanitize: tuple[tuple[str, Level], ...],
    report: Path | None,
    words: Sequence[str],
) -> None:
    """Run COMMAND with numba.cuda on the cpu device: no GPU, no edit.

    \b
    kcheck exec -- python script.py
    kcheck exec -- pytest tests
    kcheck exec --sanitize racecheck -- python script.py

    What its kernels do wrong is told on stderr, with the line of Python: each rule and line once, and at the end
    how many times. Exits as COMMAND does; with 1 where that is 0 and an error was found.
    """
    from kcheck.driver.install import read_cc
    from kcheck.driver.session import environment
    from kcheck.driver.telling import collected, summary
    from kcheck.report.json_report import finding_document

    read_cc(cc or "", "--cc ")
    with tempfile.TemporaryDirectory(prefix="kcheck-exec-") as folder:
        findings = os.path.join(folder, "findings.jsonl")
        levels = SANITIZE.levels(sanitize)
        file = None if report is None else ReportFile(report, "--report")
        try:
            code = _run(words, environment(dict(os.environ), findings, cc, timeout, levels))
            found = collected(findings)
            if file is not None:
                file.stream.writelines(json.dumps(finding_document(finding)) + "\n" for finding in found)
                file.commit()
        finally:
            if file is not None:
                file.discard()
    for line in summary(found):
        click.echo(line, err=True)
    ctx.exit(code or int(any(finding.severity == "error" for finding in found)))


def _why_not(words: Sequence[str], fault: OSError) -> str:
    if words[0].endswith(".py") and os.path.isfile(words[0]):
        return f"this is a Python file; run it by kcheck exec -- python {shlex.join(words)}"
    return f"{fault.strerror}; give a command that runs, such as python"


def _run(words: Sequence[str], environment: dict[str, str]) -> int:
    """The exit code of a command, 128 and the signal's number where one ended it, as a shell says it."""
    try:
        child = subprocess.Popen(words, env=environment)
    except OSError as fault:
        raise click.UsageError(f"{words[0]}: {_why_not(words, fault)}") from fault
    # Ctrl-C reaches the child itself: what becomes of it is for the child to say. Others are passed on.
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
