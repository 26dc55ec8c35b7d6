"""What an instruction may give: an integer of bits where the ISA says exactly which, else an Answer."""

from __future__ import annotations

from dataclasses import dataclass


class Answer:
    """A set of bit patterns."""

    __slots__ = ()

    @property
    def settled(self) -> int | Answer:
        """What kcheck's cpu gives of them, at every width, where it promises one."""
        return self

    def admits(self, bits: int) -> bool:
        """Whether the ISA allows these bits."""
        raise NotImplementedError


class OneOf(Answer):
    """One of a few."""

    __slots__ = ("choices",)

    def __init__(self, *choices: int) -> None:
        self.choices = frozenset(choices)

    def admits(self, bits: int) -> bool:
        return bits in self.choices

    def __str__(self) -> str:
        return " or ".join(hex(c) for c in sorted(self.choices))


@dataclass(frozen=True, slots=True)
class Anything(Answer):
    """The ISA leaves the result open: only that lane widths agree is asked."""

    def admits(self, bits: int) -> bool:
        return True

    def __str__(self) -> str:
        return "anything"


@dataclass(frozen=True, slots=True)
class Fields(Answer):
    """A packed register: an answer for each field, lowest first."""

    width: int
    parts: tuple[int | Answer, ...]

    @property
    def settled(self) -> int | Answer:
        return pack(self.width, tuple(map(settled, self.parts)))

    def admits(self, bits: int) -> bool:
        mask = (1 << self.width) - 1
        return bits >> (self.width * len(self.parts)) == 0 and all(
            admits(part, bits >> (self.width * i) & mask) for i, part in enumerate(self.parts)
        )

    def __str__(self) -> str:
        return "{" + ", ".join(show(p) for p in self.parts) + "}"


def settled(answer: int | Answer) -> int | Answer:
    """What kcheck's cpu gives."""
    return answer if isinstance(answer, int) else answer.settled


def admits(answer: int | Answer, bits: int) -> bool:
    """Whether an answer allows the bits."""
    return answer == bits if isinstance(answer, int) else answer.admits(bits)


def show(answer: int | Answer) -> str:
    """For a message."""
    return hex(answer) if isinstance(answer, int) else str(answer)


def pack(width: int, parts: tuple[int | Answer, ...]) -> int | Answer:
    """Fields in one register: exact where every field is."""
    total = 0
    for index, part in enumerate(parts):
        if not isinstance(part, int):
            return Fields(width, parts)
        total |= part << (width * index)
    return total
