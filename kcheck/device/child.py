"""A second process with a ``numba.cuda`` of its own, that works beside the cases."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_NONE: Mapping[str, str] = MappingProxyType({})


class Child:
    """``python -m MODULE`` with one request, as JSON. It talks through files: no pipe can fill up and no thread
    has to read one while the cases run.

    Args:
        module: that reads the request from stdin.
        variables: of the environment, beside those of this process.
    """

    def __init__(self, module: str, request: dict[str, Any], variables: Mapping[str, str] = _NONE) -> None:
        environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "0", **variables}
        # The child must find this very kcheck, however the parent found it.
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
                start_new_session=True,  # Ctrl-C is the parent's to answer, which then ends the child
            )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float) -> tuple[int, str, str]:
        """(exit code, stdout, stderr); the child is gone afterwards, also if this raises.

        Raises:
            subprocess.TimeoutExpired: it took longer.
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
        if self._process.poll() is None:  # with what it has started in its turn
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._out.close()
        self._log.close()
