"""A second process with its own ``numba.cuda`` that runs in parallel with the cases."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

_NONE: Mapping[str, str] = MappingProxyType({})


class Child:
    """``python -m MODULE`` with one request, as JSON. It communicates through files, so that no pipe can fill up
    and no thread has to read one while the cases run.

    Args:
        module: the module, which reads the request from stdin.
        variables: environment variables, in addition to those of this process.
    """

    def __init__(self, module: str, request: dict[str, Any], variables: Mapping[str, str] = _NONE) -> None:
        environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "0", **variables}
        # The child must import the same kcheck as this process.
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        self._out = tempfile.TemporaryFile()  # noqa: SIM115  # open until the child is gone
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        with tempfile.TemporaryFile() as text:
            text.write(json.dumps(request).encode())
            text.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=text,
                stdout=self._out,
                stderr=self._log,
                env=environment,
                start_new_session=True,  # the parent handles Ctrl-C and then ends the child
            )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float) -> tuple[int, str, str]:
        """Wait, and return (exit code, stdout, stderr). The child is gone afterwards, even if this raises.

        Raises:
            subprocess.TimeoutExpired: the child took longer.
        """
        try:
            code = self._process.wait(seconds)
            texts = []
            for file in (self._out, self._log):
                file.seek(0)
                texts.append(file.read().decode("utf-8", "backslashreplace"))
        finally:
            self.kill()
        return code, texts[0], texts[1]

    def kill(self) -> None:
        if self._process.poll() is None:  # the child, and the processes that it has started
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._out.close()
        self._log.close()


class Forked:
    """A fork of this process that does some work without printing anything, and ends. Requires :func:`may_fork`.

    Args:
        work: the function that it calls.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork with threads; see may_fork
            self._process = os.fork()
        self._runs = True
        if self._process == 0:
            try:
                os.setsid()  # the parent handles Ctrl-C and then ends the child
                nothing = os.open(os.devnull, os.O_RDWR)
                for stream in range(3):
                    os.dup2(nothing, stream)
                # The parent's streams may contain unwritten text, or a lock that another thread holds.
                sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # until the process ends
                work()
            finally:
                os._exit(0)

    @property
    def running(self) -> bool:
        if self._runs:
            self._runs = os.waitpid(self._process, os.WNOHANG)[0] == 0
        return self._runs

    def kill(self) -> None:
        if self.running:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
            self._runs = False


def may_fork() -> bool:
    """Whether a forked copy of this process can run Python code: no thread may hold a lock that the copy needs.
    kcheck's own threads are idle between launches, and the progress bar's only draws."""
    others = (thread for thread in threading.enumerate() if thread is not threading.current_thread())
    return all(
        thread.name.startswith("kcheck-") or type(thread).__module__.partition(".")[0] == "rich"
        for thread in others
    )
