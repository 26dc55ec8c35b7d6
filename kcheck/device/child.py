"""A second process with its own ``numba.cuda`` that runs in parallel with the cases."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from types import MappingProxyType

_NONE: Mapping[str, str] = MappingProxyType({})


class Child:
    """``python -m MODULE`` with one request, a pickle. It communicates through files, so that no pipe can fill up
    and no thread has to read one while the cases run.

    Args:
        module: the module, which reads the request from stdin.
        variables: environment variables, in addition to those of this process.
    """

    def __init__(self, module: str, request: object, variables: Mapping[str, str] = _NONE) -> None:
        environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "0", **variables}
        # The child must import the same kcheck as this process.
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        self._out = tempfile.TemporaryFile()  # noqa: SIM115  # open until the child is gone
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        with tempfile.TemporaryFile() as text:
            text.write(pickle.dumps(request))
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

    def wait(self, seconds: float) -> tuple[int, bytes, str]:
        """Wait, and return (exit code, stdout, stderr). The child is gone afterwards, even if this raises.

        Raises:
            subprocess.TimeoutExpired: the child took longer.
        """
        try:
            code = self._process.wait(seconds)
            self._out.seek(0)
            self._log.seek(0)
            return code, self._out.read(), self._log.read().decode("utf-8", "backslashreplace")
        finally:
            self.kill()

    def kill(self) -> None:
        if self._process.poll() is None:  # the child, and the processes that it has started
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._out.close()
        self._log.close()
