"""The expected outputs of a case: its reference, evaluated once, and the tolerance of each output."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.dataclass import dataclass
from kcheck.model import OpSpec
from kcheck.oracle.reference import Reference, ReferenceFailed
from kcheck.oracle.tolerance import ToleranceRule, rules

if TYPE_CHECKING:
    from kcheck.generator import CaseArrays

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Truth:
    """The reference of a case, evaluated once, and the rule of each output.

    Attributes:
        rule: the rule of an output by its name. Rules share noise floors.
        notes: the notes of the rules that have been used so far.
    """

    spec: OpSpec
    reference: Reference
    expected: Mapping[str, Array]
    rule: Callable[[str], ToleranceRule]
    notes: Callable[[], tuple[str, ...]]

    @classmethod
    def of(cls, spec: OpSpec, arrays: CaseArrays, limit: float | None = None) -> Truth:
        """Load and call the reference.

        Args:
            limit: seconds for a call of the reference; None for no limit.

        Raises:
            TimedOut: a call did not finish.
            ReferenceFailed: the reference or the tolerance cannot be used, or the reference is NaN although the
                spec forbids NaN.
        """
        reference = Reference.load(spec, arrays, limit)
        expected = reference.call()
        _check_repeats(reference, expected)
        for name, array in expected.items():
            if spec.compare.nan == "forbid" and array.dtype.kind in "fc" and np.isnan(array).any():
                index = tuple(int(n) for n in np.argwhere(np.isnan(array))[0])
                reference.fail(
                    f"the reference's {name!r} is NaN, but the spec sets `compare: {{nan: forbid}}`",
                    "fix the reference, keep NaN out of the inputs, or set `nan: match`",
                    name,
                    index,
                )
        rule, notes = rules(spec, reference, expected, arrays.case.seed)
        return cls(spec, reference, expected, rule, notes)


_repeating: weakref.WeakKeyDictionary[Callable[..., object], bool] = weakref.WeakKeyDictionary()
"""Whether a reference returned the same twice, for the references of this process."""


def _check_repeats(reference: Reference, expected: Mapping[str, Array]) -> None:
    """Call a reference again in its first case. What varies would count as rounding noise, which is tolerated.

    Raises:
        ReferenceFailed: the results differ.
    """
    function = reference.function
    try:
        repeats = _repeating.get(function)
    except TypeError:  # no weak reference can be made to it
        return
    if repeats is None and any(array.size for array in expected.values()):
        again = reference.call()
        repeats = all(array.tobytes() == again[name].tobytes() for name, array in expected.items())
        _repeating[function] = repeats
    if repeats is False:
        what = "the reference returns different results for the same inputs"
        reference.fail(what, "make random numbers from a fixed seed, or make them an input; keep no state")


class Expected:
    """The truth of one case, evaluated on first use.

    Args:
        limit: seconds for a call of the reference; None for no limit.
    """

    def __init__(self, spec: OpSpec, arrays: CaseArrays, limit: float | None = None) -> None:
        self._spec = spec
        self._arrays = arrays
        self._limit = limit
        self._truth: Truth | ReferenceFailed | None = None

    def truth(self) -> Truth:
        """The reference's results and the rules.

        Raises:
            ReferenceFailed: as in :meth:`Truth.of`, each time.
            TimedOut: as in :meth:`Truth.of`.
        """
        if self._truth is None:
            try:
                self._truth = Truth.of(self._spec, self._arrays, self._limit)
            except ReferenceFailed as error:
                self._truth = error
        if isinstance(self._truth, ReferenceFailed):
            raise self._truth
        return self._truth
