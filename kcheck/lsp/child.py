"""``kcheck`` as a child process: kernels never run in the server itself."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from kcheck.dataclass import dataclass
from kcheck.lsp.results import Finished, read

_PATIENCE = 3.0  # seconds in which a canceled child must exit by itself


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What the client has set; see docs/editor.md."""

    run_on_save: bool = True
    profile: str = "quick"
    cases: int | None = None
    device: str = ""
    client_runs_commands: bool = False

    @classmethod
    def of(cls, given: object) -> ServerSettings:
        """From the client's settings, or those under their key ``kcheck``; values of wrong types are ignored."""
        inner = given.get("kcheck", given) if isinstance(given, Mapping) else {}
        known = inner if isinstance(inner, Mapping) else {}
        default = cls()
        save, profile, cases = (known.get(name) for name in ("runOnSave", "profile", "cases"))
        device = known.get("device")
        return cls(
            save if isinstance(save, bool) else default.run_on_save,
            profile if isinstance(profile, str) else default.profile,
            cases if isinstance(cases, int) and not isinstance(cases, bool) else None,
            device if isinstance(device, str) else "",
            known.get("commands") == "client",
        )

    def options(self) -> list[str]:
        """The options of ``kcheck run``."""
        found = [f"--profile={self.profile}"] if self.profile else []
        found += [f"--cases={self.cases}"] if self.cases is not None else []
        return found + ([f"--device={self.device}"] if self.device else [])


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended. ``command`` is the command line as a user would type it."""

    command: str
    exit: int
    output: str


async def command(arguments: Sequence[str], root: Path) -> Ended:
    """Run ``kcheck`` in a folder, without colors.

    If the task is canceled, the child is interrupted as by Ctrl-C, and killed if it does not exit.
    """
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": os.environ.get("COLUMNS", "100")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kcheck", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=root,
        env=environment,
        start_new_session=True,  # only the server may end the child, not a signal to the server's group
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        await _stop(process)
        raise
    code = process.returncode if process.returncode is not None else -1
    return Ended(shlex.join(["kcheck", *arguments]), code, output.decode(errors="replace"))


async def run(arguments: Sequence[str], settings: ServerSettings, root: Path) -> Finished:
    """``kcheck run`` with a list of arguments; a run that wrote no report has the state ``error``."""
    with tempfile.TemporaryDirectory(prefix="kcheck-lsp-") as folder:
        report, sarif = Path(folder, "report.json"), Path(folder, "report.sarif")
        reports = ["--format=json", "-o", str(report), "--format=sarif", "-o", str(sarif)]
        ended = await command(["run", *settings.options(), *reports, *arguments], root)
        try:
            return read(json.loads(report.read_bytes()), json.loads(sarif.read_bytes()), root)
        except (OSError, ValueError):  # it wrote no report
            if ended.exit in (0, 5):  # no spec uses the file
                return Finished("passed", {}, "")
            return Finished("error", {}, ended.output.strip() or f"{ended.command} exited with {ended.exit}")


async def _stop(process: asyncio.subprocess.Process) -> None:
    for stop in (signal.SIGINT, signal.SIGKILL) if os.name == "posix" else (signal.SIGTERM,):
        if process.returncode is not None:
            return
        process.send_signal(stop)
        try:
            await asyncio.wait_for(process.wait(), _PATIENCE)
        except TimeoutError:
            continue
