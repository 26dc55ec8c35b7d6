"""The call stack of a call that a program made: the program's line, and what the program does with the result.

The program sends return addresses. Lines are those of the host's debug information, which ``addr2line`` reads;
without it (or without ``-g``), a place is a function and an offset. Both come from binutils, as the compiler does.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Sequence

from kcheck.dataclass import dataclass
from kcheck.span import Span, as_typed, is_users

_OURS = re.compile(r"/(libkcheck-cuda|libcudart|libcuda|libc|ld-linux[^/]*)[.-][^/]*$")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_LOAD = 1
_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Mapped:
    """Addresses of a process that hold a part of a file: ``low`` to ``high``, from ``offset`` on."""

    low: int
    high: int
    offset: int
    file: str


@dataclass(frozen=True, slots=True)
class Frame:
    """One call: its file (a program or a library), the address after it there, its function, and its line."""

    file: str
    address: int
    function: str
    place: Span | None

    def __str__(self) -> str:
        if self.place is not None:
            return f"{as_typed(self.place.file)}:{self.place.line}"
        name = os.path.basename(self.file)
        return f"{self.function} ({name}+{self.address:#x})" if self.function else f"{name}+{self.address:#x}"


class Process:
    """The code of a running program.

    Args:
        pid: its number.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._maps: list[Mapped] = []
        self._frames: dict[int, list[Frame]] = {}

    def remember(self) -> None:
        """Read where its code is: it may end before a place is needed."""
        try:
            with open(f"/proc/{self._pid}/maps", encoding="utf-8", errors="replace") as file:
                self._maps = [found for line in file if (found := _mapped(line)) is not None]
        except OSError:
            pass  # it has ended: what was read before counts

    def frames(self, stack: Sequence[int]) -> list[Frame]:
        """The program's frames, innermost first, without those of CUDA's runtime and of system libraries."""
        if any(self._at(address) is None for address in stack if address not in self._frames):
            self.remember()
        found: list[Frame] = []
        for address in stack:
            if address not in self._frames:
                self._frames[address] = self._resolved(address)
            found += self._frames[address]
        return found

    def caller(self, stack: Sequence[int], kernel: str = "") -> Frame | None:
        """The frame of a call to CUDA: the innermost one that is not in a header of CUDA or C++.

        Args:
            stack: the return addresses, innermost first.
            kernel: the name of the kernel, if the call is its launch: the host has a function of that name.
        """
        frames = self.frames(stack)
        if kernel:
            is_its = re.compile(rf"\b{re.escape(kernel)}\b|^__device_stub_|cudaLaunch")
            frames = list(itertools.dropwhile(lambda frame: is_its.search(frame.function), frames)) or frames
        users = [frame for frame in frames if frame.place is None or is_users(frame.place.file)]
        named = [frame for frame in users if not frame.function.startswith(("cuda", "__cuda", "__device_stub_"))]
        return next(iter(named or users or frames), None)

    def ignores_result(self, stack: Sequence[int]) -> bool:
        """Whether the code certainly does not look at what the call returned. False if that is unclear."""
        for frame in self._outer(stack):
            after = _after(frame.file, frame.address)
            if after != "returned":
                return after == "ignored"
        return False

    def _outer(self, stack: Sequence[int]) -> list[Frame]:
        """One frame for each address: inlined functions share the code after the call."""
        self.frames(stack)
        return [self._frames[address][0] for address in stack if self._frames.get(address)]

    def _at(self, address: int) -> Mapped | None:
        return next((each for each in self._maps if each.low <= address < each.high), None)

    def _resolved(self, address: int) -> list[Frame]:
        mapped = self._at(address)
        if mapped is None or not os.path.isfile(mapped.file) or _OURS.search(mapped.file):
            return []
        own = _linked_address(mapped.file, address - mapped.low + mapped.offset)
        return [Frame(mapped.file, own, function, place) for function, place in _lines(mapped.file, own - 1)]


class Caller:
    """The place of one call, found when it is needed: calling it returns the place as text.

    Args:
        process: the program.
        stack: the return addresses, innermost first.
    """

    def __init__(self, process: Process, stack: Sequence[int]) -> None:
        self._process, self._stack = process, stack

    @property
    def frame(self) -> Frame | None:
        """The program's frame; None if it is unknown."""
        return self._process.caller(self._stack)

    def __call__(self) -> str:
        return "" if (frame := self.frame) is None else str(frame)


def _mapped(line: str) -> Mapped | None:
    words = line.split(maxsplit=5)
    if len(words) < 6 or "x" not in words[1] or not words[5].startswith("/"):
        return None
    low, _, high = words[0].partition("-")
    return Mapped(int(low, 16), int(high, 16), int(words[2], 16), words[5].rstrip("\n"))


def _linked_address(file: str, offset: int) -> int:
    """The address for which the linker laid out a byte of an ELF file."""
    with open(file, "rb") as image:
        head = image.read(64)
        start, size, count = *struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54)
        for n in range(count):
            image.seek(start + n * size)
            kind, _, at, address, _, length, _, _ = _PROGRAM_HEADER.unpack(image.read(_PROGRAM_HEADER.size))
            if kind == _LOAD and at <= offset < at + length:
                return int(address + offset - at)
    return offset


def _output(*words: str) -> str:
    """What a tool of binutils prints; empty if it is missing, or fails."""
    if shutil.which(words[0]) is None:
        return ""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=_SECONDS, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


@functools.cache
def _lines(file: str, address: int) -> list[tuple[str, Span | None]]:
    """Function and line of an address; several if functions are inlined there, innermost first."""
    rows = _output("addr2line", "-f", "-C", "-i", "-e", file, hex(address)).splitlines()
    found = []
    for function, where in zip(rows[::2], rows[1::2], strict=False):
        path, _, line = where.partition(" ")[0].rpartition(":")
        place = Span(os.path.normpath(path), int(line)) if line.isdecimal() and path != "??" else None
        found.append(("" if function == "??" else _without_parameters(function), place))
    return found or [("", None)]


def _without_parameters(function: str) -> str:
    """``Test<(kind)1>`` of ``void Test<(kind)1>(int)``."""
    depth = 0
    for n, char in enumerate(function):
        depth += (char == "<") - (char == ">")
        if char == "(" and not depth and n:
            function = function[:n]
            break
    return re.sub(r"^(void|cudaError|static) ", "", function)


_RESULTS = {62: r"%(?:[er]?ax|al)\b", 183: r"\b[wx]0\b"}  # by ELF machine: the registers of a result
_OVERWRITES = re.compile(r"^(pop|mov|lea|movabs|movz|movsx|movzx|movs\w\w|movz\w\w|xor|pxor|adrp?|ldr)\w*\s")
_INSTRUCTIONS = 24


@functools.cache
def _after(file: str, address: int, jumps: int = 4) -> str:
    """What code does with the result of a call that returns to an address: ``ignored``, ``returned`` to the
    caller, or ``read``, which includes what is unclear. ``jumps``: how many to follow."""
    stop = f"--stop-address={address + 16 * _INSTRUCTIONS:#x}"
    text = _output("objdump", "-d", "--no-show-raw-insn", f"--start-address={address:#x}", stop, file)
    with open(file, "rb") as image:
        result = _RESULTS.get(struct.unpack_from("<H", image.read(20), 18)[0], "")
    for row in re.findall(r"^\s+[0-9a-f]+:\s+(.+)$", text, re.MULTILINE) if result else ():
        code = row.partition("#")[0].partition("<")[0].strip()
        word, *operands = code.split()
        if re.search(result, code):
            return "ignored" if _overwrites(code, result) else "read"
        if word in ("call", "callq", "bl", "blr"):
            return "ignored"
        if word in ("ret", "retq"):
            return "returned"
        if word in ("jmp", "jmpq", "b") or word.startswith(("j", "b.", "cb", "tb")):
            if not jumps or not operands or not re.fullmatch("[0-9a-f]+", operands[-1]):
                return "read"
            there = _after(file, int(operands[-1], 16), jumps - 1)
            if word in ("jmp", "jmpq", "b") or there == "read":
                return there
            rest = _after(file, _next_address(text, row), jumps - 1)
            return there if rest == there else "read"
    return "read"


def _next_address(text: str, row: str) -> int:
    """The address of the instruction after a line of a disassembly."""
    after = text.partition(row)[2]
    found = re.search(r"^\s+([0-9a-f]+):\s", after, re.MULTILINE)
    return int(found[1], 16) if found else 0


def _overwrites(code: str, result: str) -> bool:
    """Whether an instruction writes the register of the result, and does not read it."""
    if not _OVERWRITES.match(code):
        return False
    operands = code.split(maxsplit=1)[-1]
    is_x86 = "%" in result
    first, _, rest = operands.partition(",") if not is_x86 else operands.rpartition(",")[::-1]
    if re.search(result, rest) and not code.startswith("xor"):
        return False
    return re.fullmatch(result, first.strip()) is not None
