"""A process on the cpu device that answers requests, so that a test outlives whatever a kernel does to it.

Run as a program it loads the Python file that it is given, installs the device, and answers each line of JSON on
stdin by what the file's ``answer(device, request)`` returns; a file with a function ``device`` makes its own.
:class:`DeviceChild` is the other end: it says which request a process died of or never answered, and starts
another.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


class ChildDiedError(AssertionError):
    """The process ended or hung over a request, which its message names."""


class DeviceChild:
    """One process on the device.

    Args:
        module: the Python file with ``answer(device, request)``.
        cache: the folder of its caches.
    """

    def __init__(self, module: Path, cache: Path) -> None:
        self._module = module
        self._cache = cache
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.starts = 0

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        environment = {k: v for k, v in os.environ.items() if k not in ("NUMBA_ENABLE_CUDASIM", "KCHECK_CC")}
        environment |= {
            "PYTHONPATH": str(ROOT),
            "KCHECK_CACHE_DIR": str(self._cache),
            "PYTHONFAULTHANDLER": "1",
            "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, str(self._module)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
            bufsize=1,
        )
        self._answers = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(self._process, self._answers), daemon=True).start()
        self.starts += 1

    @staticmethod
    def _read(process: subprocess.Popen[str], answers: queue.SimpleQueue[str | None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            answers.put(line)
        answers.put(None)

    def ask(self, request: Any, seconds: float) -> Any:
        """The answer to a request. Raises ChildDiedError; the next request gets a new process then."""
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(request) + "\n")
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            self.close()
            raise ChildDiedError(f"no answer within {seconds} s to {request}") from None
        if line is None:
            code = process.wait()
            self._errors.seek(0)
            tail = self._errors.read()[-3000:]
            self.close()
            raise ChildDiedError(f"the process ended with {code} over {request}\n{tail}")
        answer = json.loads(line)
        if "raised" in answer:
            raise AssertionError(f"over {request}:\n{answer['raised']}")
        return answer["answer"]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout, self._errors):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            self._process = None


@dataclass(eq=False)
class Device:
    """What ``answer`` is given: the device as installed, and what it told since it was last asked."""

    installed: Any
    findings: list[Any] = field(default_factory=list)
    printed: list[bytes] = field(default_factory=list)

    @property
    def executor(self) -> Any:
        return self.installed.machine.executor

    def told(self) -> list[dict[str, Any]]:
        """The findings since the last call, as JSON has them."""
        told = [
            {
                "rule": f.rule,
                "severity": f.severity,
                "message": f.message,
                "kernel": f.kernel,
                "array": f.array,
                "index": f.index,
                "block": f.block,
                "thread": f.thread,
                "count": f.count,
                "line": f.place.line if f.place is not None else None,
                "file": f.place.file if f.place is not None else None,
                "other_line": f.other_place.line if f.other_place is not None else None,
            }
            for f in self.findings
        ]
        self.findings.clear()
        return told


def serve(module: str) -> None:
    """Answer the requests on stdin, with stdout for nothing else."""
    import traceback

    from kcheck.driver.install import install, settings

    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    findings: list[Any] = []
    printed: list[bytes] = []
    spec = importlib.util.spec_from_file_location("on_device", module)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["on_device"] = loaded
    sys.path.insert(0, str(Path(module).parent))
    spec.loader.exec_module(loaded)
    if hasattr(loaded, "device"):
        device = loaded.device()
    else:
        device = Device(install(settings(os.environ), findings.append, printed.append), findings, printed)
    for line in sys.stdin:
        try:
            reply = {"answer": loaded.answer(device, json.loads(line))}
        except Exception:
            reply = {"raised": traceback.format_exc()[-4000:]}
        replies.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    serve(sys.argv[1])
