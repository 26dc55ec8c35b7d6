"""The stub shared object: what the dynamic linker makes of it."""

from __future__ import annotations

import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kcheck.driver.elf import jump_size, shared_object
from kcheck.errors import DeviceUnavailable

_LOADS = """
import ctypes, sys
path = sys.argv[1]
stub = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
slots = (ctypes.c_void_p * 8).in_dll(stub, "kcheck_slots")
double = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda value: 2 * value)
zero = ctypes.cast(stub.kcheck_zero, ctypes.c_void_p).value
slots[0] = zero
slots[1] = ctypes.cast(double, ctypes.c_void_p).value
by_soname = ctypes.CDLL("libnothing-such.so.7")
print(by_soname.first(21), by_soname.second(21), hasattr(by_soname, "third"))
"""


def test_the_shared_object_loads_and_jumps(tmp_path: Path) -> None:
    """dlopen finds it by SONAME, dlsym what it exports and nothing else; a call arrives at its slot."""
    path = tmp_path / "stub.so"
    path.write_bytes(shared_object("libnothing-such.so.7", ["first", "second"], 8, platform.machine()))
    done = subprocess.run([sys.executable, "-c", _LOADS, str(path)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("0 42 False\n", 0), done.stderr


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_trampoline_leads_to_its_slot(machine: str) -> None:
    """Decoded by the rules of the instruction set, the nth trampoline jumps through the nth slot."""
    slots = 300
    image = shared_object("libx.so", ["f"], slots, machine)
    symbols = _symbols(image)
    code, table, step = symbols["kcheck_jumps"], symbols["kcheck_slots"], jump_size(machine)
    for n in range(slots):
        at = code + step * n
        if machine == "x86_64":
            opcode, displacement = struct.unpack_from("<2si", image, at)
            assert opcode == b"\xff\x25"
            target = at + 6 + displacement
        else:
            adrp, ldr, branch = struct.unpack_from("<III", image, at)
            assert (adrp & 0x9F00001F, ldr & 0xFFC003FF, branch) == (0x90000010, 0xF9400210, 0xD61F0200)
            pages = (adrp >> 29 & 3) | (adrp >> 5 & 0x7FFFF) << 2
            target = (at & ~0xFFF) + (pages << 12) + (ldr >> 10 & 0xFFF) * 8
        assert target == table + 8 * n


def _symbols(image: bytes) -> dict[str, int]:
    """The dynamic symbols, as the loader finds them: program headers, dynamic table, symbol table, hash."""
    (start,) = struct.unpack_from("<Q", image, 0x20)
    headers = [struct.unpack_from("<IIQQQQQQ", image, start + 56 * n) for n in range(image[0x38])]
    (dynamic,) = (h for h in headers if h[0] == 2)
    tags = dict(struct.unpack_from("<QQ", image, dynamic[2] + at) for at in range(0, dynamic[5], 16))
    (_, chain) = struct.unpack_from("<II", image, tags[4])
    found = {}
    for n in range(1, chain):
        name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", image, tags[6] + 24 * n)
        at = tags[5] + name
        found[image[at : image.index(0, at)].decode()] = value
    return found


def test_an_unknown_machine_is_refused() -> None:
    """A machine without a trampoline is the user's to know of, with a fix."""
    with pytest.raises(DeviceUnavailable, match=r"riscv64.*--device simulator"):
        shared_object("libx.so", [], 1, "riscv64")
