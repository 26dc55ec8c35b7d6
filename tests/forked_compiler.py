"""The compiler processes of forked commands, forked too: from a process that has imported numba.cuda.

``kcheck lint`` and runs on the simulator compile each kernel in a child (:class:`kcheck.device.child.Child`),
whose imports take a second. In a forked command, :func:`fork_compilers` makes ``Child`` ask the server, which is
this file run as a program. The server does its imports when it is first asked.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import socket
import subprocess
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

MODULE = "kcheck.device.artifact"
IMPORTS = (MODULE, "numba.cuda", "numba.cuda.np.arraymath", "kcheck.interpreter", "cuda.core")


class ForkedProcess:
    """What ``Child`` uses of a ``subprocess.Popen``.

    Args:
        server: a socket of the server.
        module: for ``python -m``.
        streams: files for stdin, stdout and stderr.
        env: environment variables.
    """

    def __init__(self, server: socket.socket, module: str, streams: Sequence[Any], env: dict[str, str]) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {"module": module, "folder": os.getcwd(), "environment": env}
        with theirs:
            ends = [*(stream.fileno() for stream in streams), theirs.fileno()]
            socket.send_fds(server, [json.dumps(request).encode()], ends)
        self.pid = int(self._told())
        self._code: int | None = None

    def _told(self) -> str:
        told = self._ours.recv(100)
        assert told, "the server of compilers is gone"
        return told.decode()

    def poll(self) -> int | None:
        """As Popen's."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """As Popen's."""
        if self._code is None:
            self._ours.settimeout(timeout)  # 0: without waiting
            try:
                self._code = int(self._told())
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(MODULE, timeout or 0) from None
            self._ours.close()
        return self._code


def fork_compilers(server: int) -> None:
    """Let the children of this process that compile kernels be forked.

    Args:
        server: descriptor of a socket of the server.
    """
    asked = socket.socket(fileno=server)

    def start(words: list[str], *, stdin: Any, stdout: Any, stderr: Any, env: dict[str, str], **more: Any) -> Any:
        if (
            words[1:] != ["-m", MODULE]
            or env["NUMBA_ENABLE_CUDASIM"] != "0"
            or more != {"start_new_session": True}
        ):
            return subprocess.Popen(words, stdin=stdin, stdout=stdout, stderr=stderr, env=env, **more)
        return ForkedProcess(asked, MODULE, (stdin, stdout, stderr), env)

    child: Any = import_module("kcheck.device.child")
    child.subprocess = SimpleNamespace(Popen=start)


def _fork(client: int, request: dict[str, Any], ends: Sequence[int]) -> None:
    """In a copy of the server: make a copy of that, in which alone this returns, and tell how it ends."""
    os.close(client)
    status = socket.socket(fileno=ends[3])
    process = os.fork()
    if process:
        for end in ends[:3]:
            os.close(end)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        with contextlib.suppress(OSError):  # the command is gone
            status.send(str(code).encode())
        os._exit(0)
    os.setsid()
    with status:
        status.send(str(os.getpid()).encode())
    for number, end in enumerate(ends[:3]):
        os.dup2(end, number)
        os.close(end)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[:1] = [request["folder"], *request["environment"]["PYTHONPATH"].split(os.pathsep)]


def _prepare() -> None:
    """The imports, and what numba.cuda does before it compiles its first kernel."""
    for name in IMPORTS:
        import_module(name)
    target = import_module("numba.cuda.descriptor").cuda_target
    target.typing_context.refresh()
    target.target_context.refresh()
    gc.collect()
    gc.freeze()


def serve(client: int) -> str:
    """Fork for each request: the name of the module, returned in the new process alone."""
    asked, is_ready = socket.socket(fileno=client), False
    while True:
        text, ends, _, _ = socket.recv_fds(asked, 1 << 20, 4)
        if not text:
            os._exit(0)
        if not is_ready:
            _prepare()
            is_ready = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork with threads, NumPy's
            handler = os.fork()
        if handler == 0:
            request = json.loads(text)
            _fork(client, request, ends)
            module: str = request["module"]
            return module
        for end in ends:
            os.close(end)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


if __name__ == "__main__":
    chosen = serve(int(sys.argv[1]))
    sys.argv[1:] = []
    del sys.modules[chosen]
    runpy.run_module(chosen, run_name="__main__", alter_sys=True)
    import_module("kcheck.interpreter").leave(0)
