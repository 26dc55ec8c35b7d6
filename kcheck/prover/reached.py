"""Cases with the sizes at which a kernel's conditions are met (:mod:`kcheck.prover.reach`)."""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.dataclass import dataclass
from kcheck.errors import SpecError
from kcheck.generator import Expander
from kcheck.generator.huge import HugeSizes
from kcheck.model import Case, Distribution, Example, OpSpec
from kcheck.rng import derive
from kcheck.runner.options import REACH


@dataclass(frozen=True, slots=True)
class Reaches:
    """Sizes and params for which a kernel does what it does for no planned case.

    Attributes:
        values: the distributions of inputs whose contents decide, too.
        file, line: where the kernel computes the condition that they meet; 0: unknown.
    """

    dims: Mapping[str, int]
    params: Mapping[str, int]
    dtypes: Mapping[str, str]
    values: Mapping[str, Distribution]
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class CodeSize:
    """A constant that the kernel's code has for a dim: of each comparison, cases meet both results.

    Attributes:
        word: what the code does with the dim: ``compared with``, ``divided by`` or ``multiplied by``.
    """

    dim: str
    word: str
    size: int
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class ReachFound:
    """What was found in the kernels of a spec.

    Attributes:
        never: the branches that no size takes both ways, as (file, line).
        why: why not all of the kernels were examined for these; empty if they were.
    """

    sizes: tuple[Reaches, ...] = ()
    code: tuple[CodeSize, ...] = ()
    never: tuple[tuple[str, int], ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class ReachLimits:
    """How far to look.

    Attributes:
        most: how many cases at most; ``kernels``: how many compiled kernels to look at; ``steps``: how many
            instructions of them to execute: a kernel that has more is left alone.
        any_dtypes: look at only one of the kernels that differ in dtypes and layouts.
    """

    most: int
    kernels: int
    steps: int
    any_dtypes: bool


class ReachCases:
    """Makes cases with given sizes, in a run with a master seed."""

    def __init__(self, spec: OpSpec, master: int) -> None:
        self._spec, self._master = spec, master
        self._expander, self._huge = Expander(spec), HugeSizes(spec)

    def case(self, sizes: Reaches, number: int) -> Case | None:
        """The case; None if it does not fit in memory, or if a constraint that has no term excludes it."""
        label = f"{REACH}{number}"
        stated = Example(self._spec.span, sizes.dims, sizes.dtypes, sizes.values, params=sizes.params)
        try:
            case = self._expander.case(derive(self._master, label), label, stated)
        except SpecError:
            return None
        return None if self._huge.is_huge(case.dims) else case
