"""``kcheck run --watch`` as a real process: after a save it runs what the edit touches."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from interruptible import start
from small_project import SPEC, Kcheck

DEADLINE = 180  # seconds for a line to come: a machine under load, not a measure
READY = "Ctrl-C stops"


class Watcher:
    """``kcheck run --watch`` in a project, and its output line by line."""

    def __init__(self, kcheck: Kcheck, *arguments: str) -> None:
        self.process = start(
            kcheck.command("run", "--device", "cpu", "--watch", *arguments),
            cwd=kcheck.folder,
            env=kcheck.environment | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def until(self, text: str) -> str:
        """What is printed up to a line that has the text."""
        seen: list[str] = []
        while True:
            line = self._lines.get(timeout=DEADLINE)
            assert line is not None, f"ended before {text!r}: {seen}"
            seen.append(line)
            if text in line:
                return "\n".join(seen)

    def close(self) -> None:
        """Kill the process if it still runs."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def memory(self) -> int:
        """Resident memory of the watcher, in KiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])


@pytest.fixture
def watch(kcheck: Kcheck) -> Iterator:
    """Start a watcher; it is gone at the end of the test."""
    started: list[Watcher] = []

    def start(*arguments: str) -> Watcher:
        started.append(Watcher(kcheck, *arguments))
        return started[-1]

    yield start
    for watcher in started:
        watcher.close()


def replace(file: Path, old: str, new: str) -> None:
    """Edit a file as most editors do: write a new one and move it into place."""
    text = file.read_text()
    assert old in text
    aside = file.with_name("~aside")
    aside.write_text(text.replace(old, new))
    os.replace(aside, file)


def test_an_edit_is_judged_anew_whatever_it_is(watch, project: Path) -> None:
    """A bug, a syntax error and the fix each get their verdict; Ctrl-C ends with 130, and memory has not grown."""
    kernel, spec = project / "kernels/k.py", project / "specs/good.yaml"
    watcher = watch("specs/good.yaml")
    assert "1 spec passed" in watcher.until(READY)
    memory = watcher.memory()

    replace(kernel, "y[i] = x[i] + x[i]", "y[i] = x[i] - x[i]")
    output = watcher.until(READY)
    assert "kcheck: kernels/k.py changed" in output
    assert re.search(
        r"specs/good\.yaml: case 1 of \d+ failed: mismatch; running the others(?s:.*)mismatch  ", output
    )
    assert "1 of 1 spec failed" in output

    replace(kernel, "def double(x, y):", "def double(x, y:")
    assert re.search(r"kernels/k\.py:5:\d+: .*never closed", watcher.until(READY))

    spec.touch()  # the same content: nothing to run
    replace(kernel, "def double(x, y:", "def double(x, y):")
    replace(kernel, "y[i] = x[i] - x[i]", "y[i] = x[i] + x[i]")
    output = watcher.until("1 spec passed")
    assert "good.yaml changed" not in output

    watcher.until(READY)
    replace(spec, "dims: {", "dimms: {")
    assert "unknown key 'dimms'" in watcher.until(READY)
    replace(spec, "dimms: {", "dims: {")
    assert "1 spec passed" in watcher.until(READY)
    assert watcher.memory() < memory + 8192

    watcher.process.send_signal(signal.SIGINT)
    watcher.until("stopped watching")
    assert watcher.process.wait(DEADLINE) == 130


def test_only_what_an_edit_touches_runs_failing_specs_first(watch, project: Path) -> None:
    """An edit runs the specs that use the file, by an import too, failing ones first; a new spec runs alone."""
    (project / "kernels/factor.py").write_text("FACTOR = 3\n")
    (project / "kernels/scaled.py").write_text(
        "from numba import cuda\nfrom kernels.factor import FACTOR\n\n"
        "@cuda.jit\ndef scaled(x, y):\n    i = cuda.grid(1)\n    if i < x.size:\n        y[i] = x[i] * FACTOR\n"
    )
    scaled = SPEC.format(op="scaled", tag="clean", kernel="scaled", reference="double")
    (project / "specs/scaled.yaml").write_text(scaled.replace("kernels/k.py", "kernels/scaled.py"))
    (project / "specs/loud.yaml").unlink()
    watcher = watch("specs")
    assert "1 of 2 specs failed" in watcher.until(READY)

    replace(project / "references/r.py", "return x * 2", "return x * 7")
    order = re.findall(r"^FAIL +specs/(\w+)\.yaml  ", watcher.until(READY), re.MULTILINE)
    assert [*dict.fromkeys(order)] == ["scaled", "good"]
    replace(project / "references/r.py", "return x * 7", "return x * 2")
    watcher.until(READY)

    replace(project / "kernels/factor.py", "3", "2")
    output = watcher.until(READY)
    assert re.findall(r"^(?:ok|FAIL) +specs/(\w+)\.yaml  ", output, re.MULTILINE) == ["scaled"]
    assert "1 spec passed" in output

    (project / "specs/new.yaml").write_text(SPEC.format(op="new", tag="t", kernel="double", reference="double"))
    output = watcher.until(READY)
    assert re.findall(r"^(?:ok|FAIL) +specs/(\w+)\.yaml  ", output, re.MULTILINE) == ["new"]
    assert "watching 3 specs" in output


@pytest.mark.parametrize("option", [("--format", "json"), ("--touched",), ("--format", "text", "-o", "out.txt")])
def test_watch_reports_to_the_terminal_only(kcheck: Kcheck, option: tuple[str, ...]) -> None:
    """A report in a file, or for a machine, is of one run."""
    done = kcheck("run", "--watch", "specs/good.yaml", *option)
    assert done.returncode == 2
    assert "--watch is for the terminal" in done.stderr
