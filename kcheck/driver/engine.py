"""The device process of a program that is not Python: it serves the driver calls of ``native/client.c``.

``kcheck exec`` starts it when a program makes its first CUDA call (:mod:`kcheck.driver.engines`), and it ends with
either, even during a launch (:func:`wait_for_end`). Each thread of the program has a connection, and one here.
A call is a fixed message: a name, twelve words, and whether the program wants what kernels printed.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kcheck.alignment import align_up
from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Executor
from kcheck.cpu.memory import Memory, MemoryKind, OutOfMemory, arena_size
from kcheck.cpu.sanitizers import checks
from kcheck.driver import install
from kcheck.driver.call import DriverCall, Table, get_u64, put_u32, put_u64
from kcheck.driver.finding_log import FindingLog
from kcheck.driver.host_access import beyond
from kcheck.driver.host_calls import HostCalls
from kcheck.driver.machine import Machine
from kcheck.driver.result import DriverFault, Result
from kcheck.driver.session import mark_of_use, read_levels
from kcheck.driver.shared_memory import SCRATCH, THREADS, SharedPages, map_shared, shared_pages, unmap
from kcheck.errors import DeviceUnavailable
from kcheck.model.layouts import PAGE

_REQUEST = struct.Struct("<56s12QII")
_FRAMES = 32  # of a call stack, at the end of a thread's scratch area
_REPLY = struct.Struct("<iI")
_HELLO = struct.Struct("<4Q")
_INTERNAL_ERROR = 3
_PAGEABLE, _PAGE_TABLES = 88, 100  # attributes: a GPU on PCIe cannot access memory that CUDA did not allocate

Function = Callable[..., "Result | None"]


class Engine:
    """The device of one program."""

    def __init__(self, variables: dict[str, str], folder: str, pid: int) -> None:
        chosen = install.settings(variables)
        levels = read_levels(variables.get("KCHECK_SANITIZE", ""))
        log = FindingLog(variables["KCHECK_EXEC"], levels, sys.stderr)
        with open(mark_of_use(variables["KCHECK_EXEC"]), "w"):
            pass
        cache = ObjectCache(chosen.cache / "code")
        self.pages: SharedPages = shared_pages(arena_size(chosen.memory))
        self._memory = Memory(chosen.memory, arena=self.pages.arena)
        self._host = HostCalls(pid, self._memory, log.report, finds_leaks=levels.get("leakcheck", "off") != "off")
        self._printed: list[bytes] = []
        executor = Executor(self._memory, chosen.processors, cache, chosen.clock, log.report, self._printed.append)
        executor.checks = checks(name for name, level in levels.items() if level != "off")
        if limit := variables.get("KCHECK_TIMEOUT"):
            executor.limit = float(limit)
        self._machine = Machine(chosen.cc, executor, chosen.clock)
        table = install.calls(self._machine, cache)
        self._calls = {name: _converting(call) for name, call in {**table, **self._own(table)}.items()}
        self._lock = threading.Lock()  # one call at a time, as kernels run one after another
        self._slots = iter(range(THREADS))
        self._free: list[int] = []
        self._path = os.path.join(folder, f"engine-{pid}")

    def _own(self, table: Table) -> Table:
        """The calls of the client that are not the driver's."""
        memory = self._memory

        def read(address: int, size: int) -> None:
            if memory.find(address, size) is None:
                raise beyond(memory, f"copies {size} bytes from", address, size)

        def write(address: int, size: int) -> None:
            if memory.find(address, size) is None:
                raise beyond(memory, f"copies {size} bytes to", address, size)
            memory.define(address, size)

        def reset(device: int) -> Result | None:
            self._host.find_leaks()
            return table["cuDevicePrimaryCtxReset"].function(device)

        def stage(out: int, size: int) -> None:
            try:
                put_u64(out, memory.allocate(size, MemoryKind.HOST, fill=False))
            except OutOfMemory:
                raise DriverFault(Result.OUT_OF_MEMORY) from None

        def unstage(address: int) -> None:
            memory.free(address)

        registered: dict[int, tuple[int, int, int]] = {}

        def register(out: int, address: int, size: int) -> None:
            low, high = address // PAGE * PAGE, align_up(address + size, PAGE)
            stage(out, high - low)
            place = get_u64(out)
            try:
                map_shared(self.pages.file, low, high - low, place - self.pages.scratch)
            except OSError:
                memory.free(place)
                raise DriverFault(Result.OUT_OF_MEMORY) from None
            if not memory.register(address, size):
                unmap(low, high - low)
                memory.free(place)
                raise DriverFault(Result.HOST_MEMORY_ALREADY_REGISTERED)
            registered[address] = (low, high - low, place)

        def unregister(address: int) -> None:
            if not memory.unregister(address):
                raise DriverFault(Result.HOST_MEMORY_NOT_REGISTERED)
            low, size, _ = registered.pop(address)  # the program keeps the pages
            unmap(low, size)

        def name(kernel: int, out: int) -> None:
            found = ctypes.c_uint64()
            table["cuFuncGetName"].function(ctypes.addressof(found), kernel)
            text = ctypes.string_at(found.value)[:4095]
            ctypes.memmove(out, text + b"\0", len(text) + 1)

        def params(kernel: int, out: int, most: int) -> None:
            offset, size = ctypes.c_uint64(), ctypes.c_uint64()
            for n in range(most - 1):
                try:
                    table["cuFuncGetParamInfo"].function(
                        kernel, n, ctypes.addressof(offset), ctypes.addressof(size)
                    )
                except DriverFault:
                    if n == 0:
                        table["cuFuncGetName"].function(ctypes.addressof(offset), kernel)
                    put_u32(out, n)
                    return
                put_u32(out + 4 + 8 * n, offset.value)
                put_u32(out + 8 + 8 * n, size.value)

        def attribute(out: int, number: int, device: int) -> Result | None:
            if number in (_PAGEABLE, _PAGE_TABLES):
                put_u32(out, 0)
                return None
            return table["cuDeviceGetAttribute"].function(out, number, device)

        def cooperative(kernel: int, *given: int) -> Result | None:
            return self._cooperative(table, kernel, *given)

        def load(out: int, images: int, count: int) -> Result | None:
            one = count == 1
            return table["cuModuleLoadData" if one else "kcheckLibraryLoad"].function(
                out, get_u64(images) if one else images, *([] if one else [count])
            )

        return {
            "kcheckWrite": DriverCall("pz", write),
            "kcheckRead": DriverCall("pz", read),
            "kcheckStage": DriverCall("pz", stage),
            "kcheckUnstage": DriverCall("p", unstage),
            "kcheckRegister": DriverCall("ppz", register),
            "kcheckUnregister": DriverCall("p", unregister),
            "kcheckName": DriverCall("zp", name),
            "kcheckParams": DriverCall("zpz", params),
            "kcheckFlush": DriverCall("", lambda: None),
            "kcheckEnded": DriverCall("", self._host.ended),
            "kcheckFailed": DriverCall("pipp", self._host.failed),
            "kcheckKept": DriverCall("p", self._host.kept.add),
            "kcheckErrorRead": DriverCall("i", self._host.read),
            "cuDevicePrimaryCtxReset": DriverCall("i", reset),
            "kcheckLaunchCooperative": DriverCall("zuuuuuuuzp", cooperative),
            "kcheckLoad": DriverCall("ppz", load),
            "cuDeviceGetAttribute": DriverCall("pii", attribute),
        }

    def _cooperative(self, table: Table, kernel: int, *given: int) -> Result | None:
        """A cooperative launch whose parameters are in one buffer: cuLaunchKernelEx with that attribute."""
        *shape, shared, stream, extra = given
        attribute = struct.pack("<II64s", 2, 0, struct.pack("<I", 1))
        attributes = ctypes.create_string_buffer(attribute)
        config = ctypes.create_string_buffer(
            struct.pack("<7I4xQQI", *shape, shared, stream, ctypes.addressof(attributes), 1)
        )
        return table["cuLaunchKernelEx"].function(ctypes.addressof(config), kernel, 0, extra)

    def serve(self, control: socket.socket, owner: int) -> None:
        """Serve until the program has ended, or ``kcheck exec``, which closes ``owner``."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self._path)
        listener.listen(THREADS)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        hello = _HELLO.pack(self.pages.scratch, self.pages.size, self.pages.scratch, SCRATCH)
        socket.send_fds(control, [hello], [self.pages.file])
        if wait_for_end(control, owner):
            self._host.left()
        else:
            with suppress(OSError):  # so that the program does not blame an error of kcheck
                control.send(b"\0", socket.MSG_NOSIGNAL)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            slot = self._free.pop() if self._free else next(self._slots, None)
            if slot is None:
                print("kcheck: more than 256 threads of the program use CUDA", file=sys.stderr)
                os._exit(_INTERNAL_ERROR)
            threading.Thread(target=self._serve, args=(connection, slot), daemon=True).start()

    def _serve(self, connection: socket.socket, slot: int) -> None:
        with connection:
            connection.sendall(struct.pack("<Q", slot))
            while len(message := _received(connection)) == _REQUEST.size:
                name, *words, flushes, frames = _REQUEST.unpack(message)
                end = self.pages.scratch + (slot + 1) * SCRATCH
                stack = ctypes.string_at(end - 8 * _FRAMES, 8 * min(frames, _FRAMES))
                result = self._answer(name.rstrip(b"\0").decode(), words, stack)
                text = b""
                if flushes and self._printed:
                    text = b"".join(self._printed)
                    self._printed.clear()
                try:
                    connection.sendall(_REPLY.pack(result, len(text)) + text)
                except OSError:  # the program was killed
                    break
        self._free.append(slot)

    def _answer(self, name: str, words: list[int], stack: bytes) -> int:
        try:
            with self._lock:
                self._host.stack = stack
                result = self._calls[name](words) if name in self._calls else self._refuse(name)
            return 0 if result is None else int(result)
        except DriverFault as fault:
            if fault.finding is not None:
                self._host.report(fault.finding, stack)
            return int(fault.result)
        except BaseException:
            print(f"kcheck: internal error in {name}", file=sys.stderr)
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(_INTERNAL_ERROR)

    def _refuse(self, name: str) -> Result:
        print(f"kcheck: {name} is not supported on the cpu device", file=sys.stderr)
        return Result.NOT_SUPPORTED


def wait_for_end(control: socket.socket, owner: int) -> bool:
    """Wait for the end of a program, or of ``kcheck exec``; whether it is that of the program.

    A child that the program has made without handlers of fork keeps the control connection open, so the process
    itself is watched, too. The system knows its number here; that in the program's own container may be another.
    """
    pid, _, _ = struct.unpack("3i", control.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    ends = select.poll()
    ends.register(control, 0)  # POLLHUP
    ends.register(owner, 0)
    with suppress(OSError):  # has just ended: the connection says so, too
        ends.register(os.pidfd_open(pid), select.POLLIN)
    return owner not in [file for file, _ in ends.poll()]


def _received(connection: socket.socket) -> bytes:
    """The next message; less than one at the end of the thread, or if the program was killed."""
    try:
        return connection.recv(_REQUEST.size, socket.MSG_WAITALL)
    except OSError:
        return b""


_MASKS = {"p": 2**64 - 1, "z": 2**64 - 1, "u": 2**32 - 1, "i": 2**32 - 1, "B": 255, "H": 65535}


def _converting(call: DriverCall) -> Callable[[list[int]], Result | None]:
    """The call as a function of words, each of which it cuts to its type."""
    kinds = [(_MASKS[kind], kind == "i") for kind in call.kinds]
    function = call.function

    def converted(words: list[int]) -> Result | None:
        values = [word & mask for word, (mask, _) in zip(words, kinds, strict=False)]
        for n, (_, is_signed) in enumerate(kinds):
            if is_signed and values[n] >> 31:
                values[n] -= 1 << 32
        return function(*values)

    return converted


def main() -> None:
    """``python -m kcheck.driver.engine FOLDER PID OWNER``, with the control connection as stdin."""
    folder, pid, owner = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    control = socket.socket(fileno=os.dup(0))
    try:
        engine = Engine(dict(os.environ), folder, pid)
    except DeviceUnavailable as fault:
        print(f"kcheck: {fault}", file=sys.stderr)
        sys.exit(_INTERNAL_ERROR)
    engine.serve(control, owner)
    Path(folder, f"engine-{pid}").unlink(missing_ok=True)
    sys.stderr.flush()
    os._exit(0)  # other threads may be in kernels that do not end


if __name__ == "__main__":
    main()
