"""A small shared object, made without a compiler or linker.

It holds a table of trampolines, each a jump through one slot of a table of addresses. It exports the requested
names (one trampoline each, starting at the first) and three more, through which the loader fills the slots:

=================  ==========================================================================
``kcheck_slots``   the table: ``slots`` addresses of 8 bytes, writable
``kcheck_jumps``   the first trampoline; the next is ``jump_size(machine)`` bytes after it
``kcheck_zero``    a function that takes anything and returns 0 (slots point to it at exit)
=================  ==========================================================================

Layout: one read-only segment (header, symbols, hash, strings, code) and one writable one (dynamic table, slots),
both at the file offset that is their address, so that no relocation is needed. Sources: System V gABI, chapters
4 and 5; the hash table has a single bucket, which ``dlsym`` walks. Code: AMD64 ``jmp *disp32(%rip)``; A64
``adrp``, ``ldr`` (immediate), ``br``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kcheck.alignment import align_up
from kcheck.errors import DeviceUnavailable

PAGE = 0x10000  # the largest page that Linux uses on either machine

_EHDR, _PHDR, _SYM, _DYN = 64, 56, 24, 16
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_DT_SONAME, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_NULL = 14, 4, 5, 6, 10, 11, 0
_MACHINES = {"x86_64": 62, "aarch64": 183}
_JUMP_SIZES = {"x86_64": 8, "aarch64": 16}


def jump_size(machine: str) -> int:
    """Bytes from one trampoline to the next.

    Raises:
        DeviceUnavailable: there is no trampoline for this machine.
    """
    try:
        return _JUMP_SIZES[machine]
    except KeyError:
        raise DeviceUnavailable(
            f"the cpu device does not support {machine!r} machines, only {' and '.join(_JUMP_SIZES)};"
            " use --device simulator"
        ) from None


def shared_object(soname: str, exports: Sequence[str], slots: int, machine: str) -> bytes:
    """The bytes of the shared object.

    Args:
        soname: its DT_SONAME, by which a later ``dlopen`` finds it loaded.
        exports: the functions to export; the nth jumps through slot n.
        slots: how many trampolines there are, at least ``len(exports)``.
        machine: as ``platform.machine()`` returns it.

    Raises:
        DeviceUnavailable: there is no trampoline for this machine.
    """
    step = jump_size(machine)
    names = [*exports, "kcheck_slots", "kcheck_jumps", "kcheck_zero"]
    strings = bytearray(b"\0")

    def string(text: str) -> int:
        offset = len(strings)
        strings.extend(text.encode() + b"\0")
        return offset

    soname_at = string(soname)
    name_at = [string(name) for name in names]
    count = len(names) + 1  # symbol 0 is the undefined one

    symbols = align_up(_EHDR + 4 * _PHDR, 8)
    hashes = symbols + _SYM * count
    strtab = align_up(hashes + 4 * (2 + 1 + count), 8)
    code = align_up(strtab + len(strings), 16)
    text_end = code + step * slots + 16
    dynamic = align_up(text_end, PAGE)
    table = align_up(dynamic + _DYN * 7, 16)
    end = table + 8 * slots

    jumps = b"".join(_jump(code + step * n, table + 8 * n, machine) for n in range(slots))
    zero = code + len(jumps)
    address = {name: code + step * n for n, name in enumerate(exports)}
    address |= {"kcheck_slots": table, "kcheck_jumps": code, "kcheck_zero": zero}

    image = bytearray(end)

    def put(offset: int, content: bytes) -> None:
        image[offset : offset + len(content)] = content

    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)  # 64 bit, little-endian, version 1, System V
    put(
        0,
        ident + struct.pack("<HHIQQQIHHHHHH", 3, _MACHINES[machine], 1, 0, _EHDR, 0, 0, _EHDR, _PHDR, 4, 64, 0, 0),
    )
    segments = [  # type, flags (R 4, W 2, X 1), offset, size, alignment
        (_PT_LOAD, 5, 0, text_end, PAGE),
        (_PT_LOAD, 6, dynamic, end - dynamic, PAGE),
        (_PT_DYNAMIC, 6, dynamic, _DYN * 7, 8),
        (_PT_GNU_STACK, 6, 0, 0, 16),  # the stack is not executable
    ]
    for n, (kind, flags, offset, size, alignment) in enumerate(segments):
        put(
            _EHDR + _PHDR * n, struct.pack("<IIQQQQQQ", kind, flags, offset, offset, offset, size, size, alignment)
        )
    for n, name in enumerate(names, 1):
        is_table = name == "kcheck_slots"
        info = 0x11 if is_table else 0x12  # global object, global function
        size = 8 * slots if is_table else step
        put(symbols + _SYM * n, struct.pack("<IBBHQQ", name_at[n - 1], info, 0, 1, address[name], size))
    chain = [0, *range(2, count), 0]
    put(hashes, struct.pack(f"<III{count}I", 1, count, 1, *chain))
    put(strtab, bytes(strings))
    put(code, jumps + _return_zero(machine))
    entries = [
        (_DT_SONAME, soname_at),
        (_DT_HASH, hashes),
        (_DT_STRTAB, strtab),
        (_DT_SYMTAB, symbols),
        (_DT_STRSZ, len(strings)),
        (_DT_SYMENT, _SYM),
        (_DT_NULL, 0),
    ]
    put(dynamic, b"".join(struct.pack("<QQ", *entry) for entry in entries))
    return bytes(image)


def _jump(at: int, slot: int, machine: str) -> bytes:
    """The code for address ``at`` that jumps to the address stored in ``slot``."""
    if machine == "x86_64":
        return b"\xff\x25" + struct.pack("<i", slot - (at + 6)) + b"\xcc\xcc"
    pages = (slot >> 12) - (at >> 12)
    adrp = 0x90000010 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5  # adrp x16, page of slot
    ldr = 0xF9400210 | ((slot & 0xFFF) >> 3) << 10  # ldr x16, [x16, offset in page]
    return struct.pack("<IIII", adrp, ldr, 0xD61F0200, 0xD503201F)  # br x16; nop


def _return_zero(machine: str) -> bytes:
    if machine == "x86_64":
        return b"\x31\xc0\xc3"  # xor eax, eax; ret
    return struct.pack("<II", 0x52800000, 0xD65F03C0)  # mov w0, #0; ret
