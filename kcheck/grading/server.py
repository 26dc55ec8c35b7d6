"""The process that candidates' processes are forked from. It has imported what they need, so that each starts in
milliseconds, and it knows nothing of the problem.

::

    grader ── start, with the other end of a channel ──> server ── fork ──> confined process
           <─ its process ─                                     <─ exit code ─
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
from typing import Any

from kcheck import children
from kcheck.grading.channel import ByteChannel
from kcheck.grading.sandbox import ProcessLimits, confine

CONTROL = 3
"""The file descriptor of the connection to the grader."""


def main(kind: str) -> None:
    """Serve until the grader closes the connection.

    Args:
        kind: of the kernels, as in ``KernelRef.kind``: what is imported for them.
    """
    children.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=CONTROL)
    _import(kind)
    control.sendall(b'{"kind": "warm"}\n')
    while True:
        content, ends, _, _ = socket.recv_fds(control, 1 << 20, 1)
        if not content:
            return
        with socket.socket(fileno=ends[0]) as end:
            process = _forked(json.loads(content), end, control)
        control.sendall(json.dumps({"kind": "started", "process": process}).encode() + b"\n")
        code = children.wait(process)
        with contextlib.suppress(BrokenPipeError):
            control.sendall(json.dumps({"kind": "ended", "code": code}).encode() + b"\n")


def _import(kind: str) -> None:
    """Import what candidates need, and ask the programs that no candidate may start."""
    importlib.import_module("kcheck.grading.candidate")
    if kind == "torch":
        _import_torch()
        return
    from kcheck.device.choose import warm

    warm("cpu", compiles=kind == "numba")
    if kind == "cuda":
        nvrtc = importlib.import_module("kcheck.device.kinds.nvrtc")
        nvrtc.toolkit_folders()
    elif kind == "triton":
        _import_triton()


def _import_triton() -> None:
    importlib.import_module("triton")
    compiler = importlib.import_module("triton.backends.nvidia.compiler")
    compiler.get_ptxas(80)


def _import_torch() -> None:
    """PyTorch with a ``cuda`` device in host memory, as under ``kcheck exec``."""
    from kcheck.triton import session

    os.environ["KCHECK_EXEC"] = os.path.abspath("findings")
    session.start(os.environ)
    importlib.import_module("torch")
    importlib.import_module("torch.utils.cpp_extension")  # no candidate can compile what its extensions call
    importlib.import_module("torch.nn.functional")
    with contextlib.suppress(ModuleNotFoundError):
        _import_triton()
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("numba.cuda")


def _forked(request: dict[str, Any], end: socket.socket, control: socket.socket) -> int:
    def work() -> int:
        children.die_with_parent()
        os.setsid()
        control.close()
        return _confined(request, end)

    return children.fork(work)


def _confined(request: dict[str, Any], end: socket.socket) -> int:
    folder = request["folder"]
    children.without_streams()
    os.closerange(CONTROL, end.fileno())
    os.closerange(end.fileno() + 1, 256)
    os.environ.update({"HOME": folder, "TMPDIR": folder, "TRITON_CACHE_DIR": os.path.join(folder, "triton")})

    def then() -> None:
        from kcheck.grading.candidate import run

        os.chdir(folder)
        run(ByteChannel(end))

    if not request["isolate"]:
        then()
        return 0
    limits = ProcessLimits(**request["limits"])
    code = confine(folder, request["readable"], limits, then, starts_programs=request["starts_programs"])
    if code < 0:  # end in the same way, for the message
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    return code
