"""Fat binaries, in which nvcc puts the code of a program: PTX and machine code for several architectures.

A container is a header (magic, version, its own size, size of what follows) and entries. An entry has a kind
(1: PTX, 2: machine code), the size of its header, the padded size of its content, the architecture, and flags. The
content of compressed entries is LZ4 (CUDA 12.8 and older) or zstd. There is no public description: the layout is
that of files that nvcc 11 to 13 wrote.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator

from kcheck.dataclass import dataclass

MAGIC = 0xBA55ED50
WRAPPER_MAGIC = 0x466243B1
_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIIIIIQQQ")
_PTX, _MACHINE_CODE = 1, 2
_LZ4, _ZSTD = 0x2000, 0x8000


class FatBinaryError(Exception):
    """What a program's fat binary lacks, and what to do."""


@dataclass(frozen=True)
class Image:
    """One entry: PTX or machine code for an architecture (75 for compute capability 7.5)."""

    is_ptx: bool
    architecture: int
    content: bytes
    flags: int
    unpacked: int

    def text(self) -> bytes:
        """The PTX, unpacked.

        Raises:
            FatBinaryError: it is compressed in an unknown way, or damaged.
        """
        content = self.content
        if self.flags & _ZSTD:
            content = _unzstd(content, self.unpacked)
        elif self.flags & _LZ4:
            content = unpack_lz4(content, self.unpacked)
        return content.split(b"\0", 1)[0]


def fat_binary_at(address: int) -> bytes:
    """The bytes of the container at a host address."""
    _, _, head, size = _HEADER.unpack(ctypes.string_at(address, _HEADER.size))
    return ctypes.string_at(address, head + size)


def wrapped(address: int) -> int:
    """The address of the container in a wrapper (``__fatBinC_Wrapper_t``)."""
    return ctypes.c_uint64.from_address(address + 8).value


def images(container: bytes) -> Iterator[Image]:
    """The entries of a container.

    Raises:
        FatBinaryError: it is damaged.
    """
    if len(container) < _HEADER.size:
        raise FatBinaryError("the fat binary is damaged; build the program again")
    magic, _, head, size = _HEADER.unpack_from(container)
    if magic != MAGIC or head + size > len(container):
        raise FatBinaryError("the fat binary is damaged; build the program again")
    at, end = head, head + size
    while at + _ENTRY.size <= end:
        kind, _, header, padded, packed, _, _, architecture, _, _, flags, _, unpacked = _ENTRY.unpack_from(
            container, at
        )
        first = at + header
        if not header or first + padded > end:
            raise FatBinaryError("the fat binary is damaged; build the program again")
        if kind in (_PTX, _MACHINE_CODE):
            content = container[first : first + (packed if flags & (_LZ4 | _ZSTD) else padded)]
            yield Image(kind == _PTX, architecture, content, flags, unpacked)
        at = first + padded


def choose_ptx(container: bytes, cc: tuple[int, int]) -> bytes:
    """The PTX of a container for the newest architecture that a device can run.

    Raises:
        FatBinaryError: there is none.
    """
    entries = list(images(container))
    limit = 10 * cc[0] + cc[1]
    texts = [entry for entry in entries if entry.is_ptx]
    fitting = [entry for entry in texts if entry.architecture <= limit]
    if fitting:
        return max(fitting, key=lambda entry: entry.architecture).text()
    if texts:
        lowest = min(entry.architecture for entry in texts)
        raise FatBinaryError(
            f"this program has PTX for compute_{lowest}, but the device is sm_{limit}; "
            f"run it with kcheck exec --cc {lowest // 10}.{lowest % 10}"
        )
    what = ", ".join(sorted({f"sm_{entry.architecture}" for entry in entries})) or "nothing"
    raise FatBinaryError(
        f"this program contains no PTX, only machine code ({what}); kcheck runs PTX: add "
        f"-gencode arch=compute_{limit},code=compute_{limit} to the options of nvcc, or to "
        "NVCC_APPEND_FLAGS, which nvcc reads in any build"
    )


def _unzstd(content: bytes, size: int) -> bytes:
    try:
        import zstandard
    except ModuleNotFoundError:
        raise FatBinaryError(
            "the PTX of this program is compressed with zstd: pip install zstandard, or add --compress-mode=none "
            "to the options of nvcc"
        ) from None
    try:
        return zstandard.ZstdDecompressor().decompress(content, max_output_size=size)
    except zstandard.ZstdError as fault:
        raise FatBinaryError(f"the PTX of this program is damaged ({fault}); build it again") from fault


def unpack_lz4(content: bytes, size: int) -> bytes:
    """The content of an LZ4 block (LZ4 Block Format Description): literals and copies of what came before.

    Raises:
        FatBinaryError: it is damaged.
    """
    out = bytearray()
    at = 0

    def length(first: int) -> int:
        nonlocal at
        total = first
        if first == 15:
            more = 255
            while more == 255:
                more = content[at]
                total += more
                at += 1
        return total

    try:
        while len(out) < size:
            token = content[at]
            at += 1
            count = length(token >> 4)
            out += content[at : at + count]
            at += count
            if len(out) >= size:
                break
            distance = content[at] | content[at + 1] << 8
            at += 2
            count = length(token & 15) + 4
            start = len(out) - distance
            if distance == 0 or start < 0:
                raise IndexError
            for place in range(start, start + count):
                out.append(out[place])
    except IndexError:
        raise FatBinaryError("the PTX of this program is damaged; build it again") from None
    return bytes(out[:size])
