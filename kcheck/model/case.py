"""A case: the recipe of one launch, without arrays. It takes less than 1 KB as JSON."""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.dataclass import dataclass
from kcheck.model.spec import Distribution, Scalar


@dataclass(frozen=True, slots=True)
class Case:
    """The recipe of one launch: a pure function of its spec and its seed, and of the example if it is one.

    Attributes:
        spec: path of the spec, as in OpSpec.path.
        op: the spec's op.
        label: ``iter_12`` (the 12th case seed of the run), ``least`` (a corner of the sizes), ``example_0``, or
            ``seed`` (given on the command line).
        seed: the 64-bit case seed.
        dims: every dim, derived ones too, in elements.
        dtypes: the dtype drawn for each type variable.
        layouts: by array, inputs and outputs (an aliased output has its input's).
        values: by input; ``adversarial`` is replaced by the distribution drawn.
        params: by name, before rounding to the param's dtype.
    """

    spec: str
    op: str
    label: str
    seed: int
    dims: Mapping[str, int]
    dtypes: Mapping[str, str]
    layouts: Mapping[str, str]
    values: Mapping[str, Distribution]
    params: Mapping[str, Scalar]

    @property
    def id(self) -> str:
        """``softmax[iter_12-M=3-N=65-T=float32]``: unique in a run of one spec; what ``-k`` matches."""
        parts = [self.label, *(f"{k}={v}" for k, v in (*self.dims.items(), *self.dtypes.items()))]
        return f"{self.op}[{'-'.join(parts)}]"
