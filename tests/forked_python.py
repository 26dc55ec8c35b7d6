"""``python -m kcheck`` in a process of its own that need not import anything: a copy of one that has.

A command spends most of its time on imports. :func:`run_module` forks it from a server, a process that has done
them and nothing else, so that the command has its own memory, folder, environment, streams and end, as a process
that Python starts. What it has not is a hash seed of its own, and imports that can fail: a test about those takes
:func:`start_module`, as do the tests of every command in ``tests/cli/test_started_commands.py``.

Run as a program, this file is the server.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path

from forked_compiler import fork_compilers

ROOT = Path(__file__).resolve().parents[1]
MODULES = (
    "kcheck.__main__",
    *(
        f"kcheck.{package}.{path.stem}"
        for package in ("cli", "report", "runner")
        for path in sorted((ROOT / "kcheck" / package).glob("*.py"))
        if path.stem not in ("__init__", "lsp")  # which takes an extra
    ),
    "kcheck.device.cpu",
    "kcheck.device.kinds.numba",
    "kcheck.device.precompile",
    "kcheck.driver.install",
    "kcheck.ptx.compile",
    "kcheck.store.baselines",
    *("numba", "numba.types", "numpy.f2py", "numpy.ma", "numpy.testing", "rich.console", "packaging.version"),
)
"""What a server imports. None of them imports numba.cuda: the cpu device must be there before."""
EXTRAS = (
    *("cffi.api", "scipy.linalg", "cuda.core"),
    *(f"cuda.bindings.{name}" for name in ("driver", "nvjitlink", "nvrtc", "nvvm")),
)
"""What it imports if it is installed."""
SIMULATOR = ("numba.cuda", "kcheck.device.simulator.backend")
"""What the server for ``--device simulator`` imports too."""
_READ_AT_START = ("PYTHON", "NUMBA", "LC_", "LANG", "LD_", "OPENBLAS", "OMP_", "MALLOC")


def run_module(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """``python -m`` with these words, its output captured; forked if the module is kcheck and the environment has
    the settings of Python and Numba that the server had.

    Raises:
        subprocess.TimeoutExpired: it took longer than that many seconds.
    """
    at_start = {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}
    if words[0] != "kcheck" or not hasattr(os, "fork") or at_start != _at_start():
        return start_module(words, folder, environment, seconds)
    return _server(_is_simulated(words)).run(words, folder, environment, seconds)


def start_module(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """As :func:`run_module`, but started by Python, with all its imports."""
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=dict(environment),
        capture_output=True,
        encoding="utf-8",
        timeout=seconds,
        check=False,
    )


def environment(*without: str) -> dict[str, str]:
    """That of the tests, for a command that chooses its device.

    Args:
        without: variables that are left out.
    """
    left_out = {"NUMBA_ENABLE_CUDASIM", *without}
    return {**{k: v for k, v in os.environ.items() if k not in left_out}, "PYTHONPATH": str(ROOT)}


def _is_simulated(words: Sequence[str]) -> bool:
    """Whether a command certainly uses the simulator."""
    return [device for option, device in pairwise(words) if option == "--device"][-1:] == ["simulator"]


def _at_start() -> dict[str, str]:
    """The variables of the servers that Python and the libraries read when they start."""
    ours = {name: value for name, value in os.environ.items() if name.startswith(_READ_AT_START)}
    ours.pop("NUMBA_ENABLE_CUDASIM", None)
    return {**ours, "PYTHONPATH": str(ROOT)}


@functools.cache
def _compilers() -> socket.socket:
    """A socket of the server of the commands' compilers."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("forked_compiler.py")), str(theirs.fileno())],
        env={**os.environ, **_at_start(), "NUMBA_ENABLE_CUDASIM": "0"},
        pass_fds=[theirs.fileno()],
    )
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)  # before
    return ours


@functools.cache
def _server(simulated: bool) -> Server:
    server = Server(simulated)
    atexit.register(server.close)
    return server


class Server:
    """The client's side of a server.

    Args:
        simulated: it imports the simulator of numba.cuda, for which its commands ask.
    """

    def __init__(self, simulated: bool) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ends = [theirs.fileno(), _compilers().fileno()]
        clean = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
        self._process = subprocess.Popen(
            [sys.executable, __file__, *map(str, ends), *(SIMULATOR if simulated else ())],
            env={**clean, **_at_start(), **({"NUMBA_ENABLE_CUDASIM": "1"} if simulated else {})},
            stdout=subprocess.DEVNULL,  # no terminal, whatever the tests have
            pass_fds=ends,
        )
        theirs.close()
        self._lock = threading.Lock()

    def run(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """Run one command."""
        request = {"words": list(words), "folder": str(folder), "environment": dict(environment)}
        with self._lock:
            readers, theirs = zip(*(_reader() for _ in range(2)), strict=True)
            try:
                socket.send_fds(self._socket, [json.dumps(request).encode()], theirs)
            finally:
                for end in theirs:
                    os.close(end)
            child = int(self._answer())
            self._socket.settimeout(seconds)
            try:
                code = int(self._answer())
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                self._socket.settimeout(None)
                self._answer()
                raise subprocess.TimeoutExpired(list(words), seconds) from None
            finally:
                self._socket.settimeout(None)
        out, err = (reader.text(seconds) for reader in readers)
        return subprocess.CompletedProcess([sys.executable, "-m", *words], code, out, err)

    def _answer(self) -> str:
        told = self._socket.recv(100)
        if not told:
            raise AssertionError(f"the server of commands ended with {self._process.wait()}")
        return told.decode()

    def close(self) -> None:
        """End it."""
        self._socket.close()
        self._process.wait()


class _Reader:
    """Reads a pipe to its end, in a thread: no pipe may fill up."""

    def __init__(self, end: int) -> None:
        self._bytes = b""
        self._end = end
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with open(self._end, "rb") as file:
            self._bytes = file.read()

    def text(self, seconds: float) -> str:
        """All of it. Whoever still holds the pipe after the command's end must let go of it."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "a process that the command started holds its stdout or stderr"
        return self._bytes.decode().replace("\r\n", "\n").replace("\r", "\n")


def _reader() -> tuple[_Reader, int]:
    ours, theirs = os.pipe()
    return _Reader(ours), theirs


def serve(client: socket.socket) -> list[str]:
    """Fork for each request: the words for ``python -m``, returned in the new process alone."""
    gc.collect()
    gc.freeze()  # what is imported is looked at by no collection, which would copy its pages
    while True:
        text, ends, _, _ = socket.recv_fds(client, 1 << 20, 2)
        if not text:
            os._exit(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork with threads, NumPy's
            child = os.fork()
        if child == 0:
            client.close()
            request = json.loads(text)
            for number, end in enumerate(ends, 1):
                os.dup2(end, number)
                os.close(end)
            os.environ.clear()
            os.environ.update(request["environment"])
            os.chdir(request["folder"])
            sys.path[0] = request["folder"]
            words: list[str] = request["words"]
            return words
        for end in ends:
            os.close(end)
        client.send(str(child).encode())
        status = os.waitpid(child, 0)[1]
        with contextlib.suppress(BrokenPipeError):
            client.send(str(os.waitstatus_to_exitcode(status)).encode())


def program(client: int, compilers: int, more: Sequence[str]) -> None:
    """The server, and the commands that it forks."""
    for name in (*MODULES, *more):
        import_module(name)
    for name in EXTRAS:
        with contextlib.suppress(ImportError):
            import_module(name)
    sys.argv[1:] = serve(socket.socket(fileno=client))[1:]
    fork_compilers(compilers)
    import_module("kcheck.__main__").process()


if __name__ == "__main__":
    program(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
