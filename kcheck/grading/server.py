"""The process that candidates' processes are forked from. It has imported what they need, so that each starts in
milliseconds, and it knows nothing of the problem.

::

    grader ── start, with the other ends of channels ──> server ── fork ──> family ── fork ──> device process
           <─ its process ─                                     <─ exit code ─    └── fork ──> candidate's process

Both processes of a family share device memory, and are confined.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import signal
import socket
import tempfile
from typing import Any

from kcheck import children
from kcheck.device.cpu import own_machine
from kcheck.driver import session
from kcheck.driver.machine import Machine
from kcheck.driver.shared_memory import replaced_pages
from kcheck.grading.channel import ByteChannel
from kcheck.grading.deviceprocess import DeviceProcess
from kcheck.grading.patches import Integrity
from kcheck.grading.remote import RemoteLaunches, launch_elsewhere
from kcheck.grading.sandbox import ProcessLimits, confine, readable_by_default

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
    integrity = Integrity()
    control.sendall(b'{"kind": "warm"}\n')
    while True:
        content, files, _, _ = socket.recv_fds(control, 1 << 20, 2)
        if not content:
            return
        ends = [socket.socket(fileno=file) for file in files]
        process = _forked(json.loads(content), kind, ends, control, integrity)
        for end in ends:
            end.close()
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


def _forked(
    request: dict[str, Any], kind: str, ends: list[socket.socket], control: socket.socket, integrity: Integrity
) -> int:
    """Fork a family: the candidate's process and, if there is a second channel, its device process."""

    def work() -> int:
        children.die_with_parent()
        os.setsid()
        control.close()
        children.without_streams()
        end, *of_device = ends
        if not of_device:
            return _ended(_confined(request, end, None, None, integrity))
        machine = _machine(kind)
        machine.executor.memory.share(replaced_pages)
        ours, theirs = socket.socketpair()
        device = children.fork(lambda: _serve_device(request, machine, of_device[0], theirs, kind))
        theirs.close()
        of_device[0].close()
        remote = launch_elsewhere(machine, ByteChannel(ours))
        code = _confined(request, end, ours, remote, integrity)
        for channel in (end, ours):
            channel.close()
        children.wait(device)  # the grader may still ask it
        return _ended(code)

    return children.fork(work)


def _machine(kind: str) -> Machine:
    """The device of this process."""
    return session.start({}).machine if kind == "torch" else own_machine()


def _serve_device(
    request: dict[str, Any], machine: Machine, grader: socket.socket, candidate: socket.socket, kind: str
) -> int:
    children.die_with_parent()
    _keep_only(grader, candidate)
    tempfile.gettempdir()  # it looks for a folder where it may write, and may not later

    def then() -> None:
        served = DeviceProcess(machine.executor, outputs_are_named=kind != "torch")
        served.serve(ByteChannel(grader), ByteChannel(candidate))

    if not request["isolate"]:
        then()
        return 0
    return confine(request["cache"], readable_by_default([]), ProcessLimits(), then, keeps_folder=True)


def _keep_only(*kept: socket.socket) -> None:
    """Close all files but the streams and these."""
    numbers = sorted({CONTROL - 1, *(each.fileno() for each in kept), 256})
    for low, high in itertools.pairwise(numbers):
        os.closerange(low + 1, high)


def _confined(
    request: dict[str, Any],
    end: socket.socket,
    device: socket.socket | None,
    remote: RemoteLaunches | None,
    integrity: Integrity,
) -> int:
    """Run the candidate's process; its exit code. ``device``: its connection to the device process."""
    folder = request["folder"]
    _keep_only(end, *([device] if device is not None else []))
    os.environ.update({"HOME": folder, "TMPDIR": folder, "TRITON_CACHE_DIR": os.path.join(folder, "triton")})

    def then() -> None:
        from kcheck.grading.candidate import run

        os.chdir(folder)
        run(ByteChannel(end), remote, integrity)

    if not request["isolate"]:
        then()
        return 0
    limits = ProcessLimits(**request["limits"])
    return confine(folder, request["readable"], limits, then, starts_programs=request["starts_programs"])


def _ended(code: int) -> int:
    """The exit code. If it is of a signal, this process ends in the same way, for the message."""
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    return code
