"""Write the stub ``libcuda.so.1``, load it, and fill its slots.

``cuGetProcAddress`` returns one trampoline per name, created when the name is first requested: cuda.bindings
requests about 525 names, of which a program calls a few dozen. At exit every slot points to a native function that
returns 0, because native destructors (those of cuda.bindings) still call the driver after Python has exited.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import platform
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from kcheck.driver.call import DriverCall, Table, put_u32, put_u64
from kcheck.driver.elf import jump_size, shared_object
from kcheck.driver.result import Result
from kcheck.errors import DeviceUnavailable

SONAME = "libcuda.so.1"
MARK = "kcheck_stub"
"""A symbol that only the stub has: another driver is that of a GPU."""
SLOTS = 2048
# Names that are looked up by dlsym: the first two by cuda.bindings, the others by NVRTC and by C programs.
# Programs that look up more (CuPy) need Stub.answer_dlsym.
EXPORTS = ("cuGetProcAddress_v2", "cuGetProcAddress", "cuInit", "cuDriverGetVersion", "cuGetExportTable")

_ALWAYS = frozenset({"cuGetProcAddress_v2", "cuGetProcAddress", "cuGetErrorName", "cuGetErrorString"})


class Stub:
    """The loaded shared object.

    Attributes:
        refused: how often each unimplemented function was called.
    """

    def __init__(self, path: Path, calls: Table) -> None:
        try:
            self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
            self._slots = (ctypes.c_void_p * SLOTS).in_dll(self._library, "kcheck_slots")
        except (OSError, ValueError) as fault:
            raise DeviceUnavailable(f"{path}: the stub CUDA driver does not load ({fault})") from fault
        self._jumps = _address(self._library.kcheck_jumps)
        self._zero = _address(self._library.kcheck_zero)
        self._step = jump_size(platform.machine())
        self._calls = calls | {
            "cuGetProcAddress_v2": DriverCall("ppizp", self._get_proc_address),
            "cuGetProcAddress": DriverCall(
                "ppiz", lambda name, out, version, flags: self._get_proc_address(name, out, 0, 0, 0)
            ),
        }
        self._callbacks: list[object] = []
        self._lock = threading.Lock()
        self.refused: Counter[str] = Counter()
        for slot in range(SLOTS):
            self._slots[slot] = self._zero
        self._slot_of = {name: slot for slot, name in enumerate(exported(calls))}
        for name in EXPORTS:
            self._trampoline(name)
        atexit.register(self.silence)

    def answer_dlsym(self) -> None:
        """Fill the slots of all functions that :func:`write_stub` has exported, which takes a few milliseconds."""
        for name in exported(self._calls):
            self._trampoline(name)

    def wrap(self, name: str, wrapper: Callable[[int], int]) -> None:
        """Call another native function for a name: what ``wrapper`` returns for the address of this one."""
        self._trampoline(name)
        slot = self._slot_of[name]
        self._slots[slot] = wrapper(self._slots[slot] or 0)

    def silence(self) -> None:
        """Point every slot at the native function that returns 0: calls no longer reach Python."""
        for slot in range(SLOTS):
            self._slots[slot] = self._zero

    def forsake(self) -> None:
        """Return NOT_INITIALIZED from every call from now on, like NVIDIA's driver in a child process forked after
        ``cuInit``. The names of results stay available."""
        dead = DriverCall("", lambda: Result.NOT_INITIALIZED)
        self._calls = {name: call if name in _ALWAYS else dead for name, call in self._calls.items()}
        for name, slot in self._slot_of.items():
            if name not in _ALWAYS:
                self._slots[slot] = self._callback(name)

    def _get_proc_address(self, name: int, out: int, version: int, flags: int, status: int) -> None:
        """``cuGetProcAddress``: every name gets an address; unimplemented functions fail when they are called."""
        put_u64(out, self._trampoline(ctypes.string_at(name).decode()))
        put_u32(status, 0)

    def _trampoline(self, name: str) -> int:
        with self._lock:
            slot = self._slot_of.setdefault(name, len(self._slot_of))
            if slot >= SLOTS:
                raise MemoryError(f"more than {SLOTS} driver functions requested")
            if self._slots[slot] == self._zero:
                self._slots[slot] = self._callback(name)
        return self._jumps + self._step * slot

    def _callback(self, name: str) -> int:
        call = (
            self._calls.get(name)
            or self._calls.get(name.removesuffix("_v2"))
            or DriverCall("", lambda: self._refuse(name))
        )
        callback = call.callback(name, _report_crash)
        self._callbacks.append(callback)
        return _address(callback)

    def _refuse(self, name: str) -> Result:
        self.refused[name] += 1
        return Result.NOT_SUPPORTED


def _address(function: object) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
    assert address is not None
    return address


def _report_crash(name: str, crash: BaseException) -> None:
    """Print an internal error in a callback, which cannot raise it through C."""
    print(f"kcheck: internal error in {name}", file=sys.stderr)
    traceback.print_exception(crash)


def exported(calls: Table) -> list[str]:
    """The functions that the stub exports, in the order of their slots. A name of CUDA's header often stands for
    one with ``_v2``."""
    more = sorted(calls.keys() - set(EXPORTS))
    versions = [f"{name}_v2" for name in more if not name.endswith("_v2") and f"{name}_v2" not in calls]
    return [*EXPORTS, *more, *versions]


def write_stub(folder: Path, calls: Table) -> Path:
    """The path of the stub in a cache folder, written if it is missing or differs. Its name contains a digest of
    its content, so that versions do not clash. It is written to a temporary file and moved into place, so that two
    processes may do so at once. If the folder is not writable, a temporary folder is used.

    Raises:
        DeviceUnavailable: there is no trampoline for this machine, or no writable folder.
    """
    image = shared_object(SONAME, [*exported(calls), MARK], SLOTS, platform.machine())
    name = f"libcuda-{hashlib.blake2b(image, digest_size=8).hexdigest()}.so.1"
    for parent in (folder, None):
        try:
            place = Path(tempfile.mkdtemp(prefix="kcheck-")) if parent is None else parent
            return _write(place, name, image)
        except OSError as fault:
            last = fault
    raise DeviceUnavailable(f"{folder}: the stub CUDA driver cannot be written ({last})")


def _write(folder: Path, name: str, image: bytes) -> Path:
    path = folder / name
    try:
        if path.read_bytes() == image:
            return path
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=folder, prefix=".stub-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(image)
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise
    return path
