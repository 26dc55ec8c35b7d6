"""What the code of a launch does that decides how its results are judged."""

from __future__ import annotations

from kcheck.dataclass import dataclass
from kcheck.model.tensor_sum import TensorSum


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """Facts of kernels.

    Attributes:
        float_atomics: an atomic operation adds floats, in an unspecified order; None: unknown.
        narrow_floats: the formats narrower than float32 to which the code rounds: ``16-bit`` in arithmetic,
            ``16-bit sums`` and ``tf32`` in matrix products; None: unknown.
        tensor_sums: the sums in float32 that tensor cores truncate; empty if unknown.
    """

    float_atomics: bool | None = False
    narrow_floats: frozenset[str] | None = frozenset()
    tensor_sums: frozenset[TensorSum] = frozenset()

    def __or__(self, other: LaunchFacts) -> LaunchFacts:
        """The facts of two kernels of which all is known."""
        return LaunchFacts(
            bool(self.float_atomics or other.float_atomics),
            (self.narrow_floats or frozenset()) | (other.narrow_floats or frozenset()),
            self.tensor_sums | other.tensor_sums,
        )


NO_FACTS = LaunchFacts()
UNKNOWN = LaunchFacts(None, None)
