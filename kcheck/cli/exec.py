"""``kcheck exec -- python script.py``: any numba.cuda program on the cpu device, its child processes included."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence

import click


@click.command(
    "exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Run any numba.cuda program on the cpu device.",
)
@click.option(
    "--cc", metavar="CC", help="Compute capability of the device, such as 9.0 (KCHECK_CC; 8.0 unless said)."
)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds that one launch may take.")
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, cc: str | None, timeout: float | None, words: Sequence[str]) -> None:
    """Run COMMAND with numba.cuda on the cpu device: no GPU, no edit.

    \b
    kcheck exec -- python script.py
    kcheck exec -- pytest tests

    What its kernels do wrong is told on stderr, with the line of Python. Exits as COMMAND does;
    with 1 where that is 0 and something was found.
    """
    from kcheck.driver.install import read_cc
    from kcheck.driver.session import environment

    read_cc(cc or "")
    with tempfile.TemporaryDirectory(prefix="kcheck-exec-") as folder:
        findings = os.path.join(folder, "findings.jsonl")
        code = _run(words, environment(dict(os.environ), findings, cc, timeout))
        errors = _count(findings)
    if errors:
        click.echo(f"kcheck: {errors} finding{'s' if errors != 1 else ''}", err=True)
    ctx.exit(code if code else int(errors > 0))


def _run(words: Sequence[str], environment: dict[str, str]) -> int:
    """The exit code of a command, 128 and the signal's number where one ended it, as a shell says it."""
    try:
        child = subprocess.Popen(words, env=environment)
    except OSError as fault:
        raise click.UsageError(
            f"{words[0]}: {fault.strerror}; give a command that runs, such as python"
        ) from fault
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


def _count(path: str) -> int:
    """Errors among the findings that the processes told."""
    if not os.path.exists(path):
        return 0
    with open(path, encoding="utf-8") as file:
        return sum(json.loads(line)["severity"] == "error" for line in file)
