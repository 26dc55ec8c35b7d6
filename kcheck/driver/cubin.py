"""The resources of an assembled kernel. nvJitLink, which needs no driver, assembles PTX to a cubin, and this
module reads the cubin.

A cubin is an ELF file. Registers, frame and stack sizes are in ``.nv.info`` as (kind, symbol, value) records;
shared and constant memory are the sizes of sections. The kinds were found by comparing cubins with the output of
``cuobjdump --dump-resource-usage``.
"""

from __future__ import annotations

import functools
import importlib
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kcheck.cpu.cache import ObjectCache
from kcheck.dataclass import dataclass
from kcheck.errors import PtxError

_REGCOUNT, _MIN_STACK_SIZE = 0x2F, 0x12  # EIATTR_*
_FORMAT_SIZED = 4  # a record whose 16-bit field is the size of what follows
_SYSTEM_SHARED = 1 << 10  # reserved for the system, but counted as the kernel's from compute capability 9.0
_OPTIONS = re.compile(r"^// kcheck-link: max_registers=(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CubinResources:
    """The resources of one kernel. Registers are per thread; the others are in bytes: ``shared`` per block (static
    only), ``local`` per thread, ``constant`` of its module."""

    registers: int
    shared: int
    local: int
    constant: int


def with_link_options(ptx: str, max_registers: int | None) -> str:
    """The PTX with the link options in a comment at its end, where they survive Numba's caches and do not change
    line numbers."""
    return f"{ptx}\n// kcheck-link: max_registers={max_registers}\n" if max_registers else ptx


def assembler(cc: tuple[int, int], cache: ObjectCache) -> Callable[[str, str], CubinResources]:
    """A function (ptx, entry) -> CubinResources for a compute capability; results are cached. It raises PtxError
    with the assembler's message if the assembler rejects the code.
    """

    @functools.lru_cache(maxsize=1024)
    def resources(ptx: str, entry: str) -> CubinResources:
        key = "\0".join(("resources", assembler_version(), str(cc), entry, ptx))
        made: CubinResources | None = cache.load(key)
        if made is None:
            made = read_resources(_assemble(ptx, cc), entry, has_system_shared=cc >= (9, 0))
            cache.store(key, made)
        return made

    return resources


@functools.cache
def assembler_version() -> str:
    """The version of nvJitLink, which contains the assembler: part of the cache key."""
    from cuda.bindings import nvjitlink

    return ".".join(map(str, nvjitlink.version()))


def _assemble(ptx: str, cc: tuple[int, int]) -> bytes:
    from cuda.core import Linker, LinkerOptions, ObjectCode

    option = _OPTIONS.search(ptx)
    # like numba-cuda: from 9.0 on, code may use features that only this architecture has (the suffix a)
    arch = f"sm_{cc[0]}{cc[1]}" + ("a" if cc >= (9, 0) else "")
    options = LinkerOptions(arch=arch, max_register_count=int(option[1]) if option else None)
    try:
        linker = Linker(ObjectCode.from_ptx(ptx.encode()), *_runtime(ptx), options=options)
        try:
            return bytes(linker.link("cubin").code)
        finally:
            linker.close()
    except Exception as fault:
        raise PtxError(f"the assembler rejects it: {fault}", "kernel.ptx", 1) from fault


def _runtime(ptx: str) -> list[Any]:
    """The device runtime, if a kernel calls it for a grid barrier; numba-cuda links it then, too."""
    from cuda.core import ObjectCode

    if "cudaCG" not in ptx:
        return []
    libs = importlib.import_module("numba.cuda.cudadrv.libs")
    return [ObjectCode.from_library(Path(libs.get_cudalib("cudadevrt", static=True)).read_bytes())]


def read_resources(cubin: bytes, entry: str, *, has_system_shared: bool) -> CubinResources:
    """The resources of a kernel of a cubin.

    Raises:
        PtxError: the cubin does not contain the kernel.
    """
    sections = {name: (kind, content) for name, kind, content in _sections(cubin)}
    if f".text.{entry}" not in sections:
        raise PtxError(f"the assembler's output has no kernel {entry}", "kernel.ptx", 1)
    names = list(_symbols(sections))
    shared = _size(sections, f".nv.shared.{entry}")
    values = {}
    for attribute, symbol, value in _info(sections[".nv.info"][1]):
        if symbol < len(names) and names[symbol] == entry:
            values[attribute] = value
    return CubinResources(
        registers=values[_REGCOUNT],
        shared=shared - _SYSTEM_SHARED if has_system_shared and shared >= _SYSTEM_SHARED else shared,
        local=values.get(_MIN_STACK_SIZE, 0),
        constant=_size(sections, ".nv.constant3"),
    )


def _size(sections: dict[str, tuple[int, int | bytes]], name: str) -> int:
    """Bytes of a section; 0 if there is no such section."""
    content = sections.get(name, (0, 0))[1]
    return content if isinstance(content, int) else len(content)


def _sections(cubin: bytes) -> Iterator[tuple[str, int, int | bytes]]:
    """Name, type and content of each section; instead of the content, the size if the file does not contain it."""
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    count, names = struct.unpack_from("<HH", cubin, 0x3C)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + 64 * n) for n in range(count)]
    strings = headers[names][4]
    for name, kind, _, _, offset, size, *_ in headers:
        at = strings + name
        text = cubin[at : cubin.index(0, at)].decode()
        yield text, kind, size if kind == 8 else cubin[offset : offset + size]


def _symbols(sections: dict[str, tuple[int, int | bytes]]) -> Iterator[str]:
    table, strings = sections[".symtab"][1], sections[".strtab"][1]
    assert isinstance(table, bytes)
    assert isinstance(strings, bytes)
    for (name,) in ((struct.unpack_from("<I", table, at)[0],) for at in range(0, len(table), 24)):
        yield strings[name : strings.index(0, name)].decode()


def _info(content: int | bytes) -> Iterator[tuple[int, int, int]]:
    """(attribute, symbol, value) of the ``.nv.info`` records that contain a symbol and a value."""
    assert isinstance(content, bytes)
    at = 0
    while at + 4 <= len(content):
        form, attribute, size = struct.unpack_from("<BBH", content, at)
        at += 4
        if form == _FORMAT_SIZED:
            if size == 8:
                yield attribute, *struct.unpack_from("<II", content, at)
            at += size
