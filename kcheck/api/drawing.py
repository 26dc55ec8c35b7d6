"""The cases of a spec, for a caller that runs the op itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck import model
from kcheck.api.arguments import count_of, seed_of
from kcheck.api.spec import SpecLike, model_of
from kcheck.api.verdict import Verdict
from kcheck.device.harvest import input_findings, values
from kcheck.device.returned import returned_gradients, returned_outputs
from kcheck.errors import UserError
from kcheck.frameworks import may_flush
from kcheck.generator import CaseArrays, cotangents, expand, materialize, plan, snapshot
from kcheck.generator.host_array import HostArray
from kcheck.model import OpSpec, Outcome
from kcheck.nearest import did_you_mean
from kcheck.oracle import CALLER, judge

Array: TypeAlias = npt.NDArray[Any]


class Case:
    """One case of a spec: its inputs, and a method that checks the outputs of the op.

    >>> import kcheck
    >>> case = kcheck.case_of("specs/softmax.yaml", seed=7)
    >>> sorted(case.inputs)
    ['x']
    >>> case.inputs["x"].dtype, case.inputs["x"].shape == (case.dims["M"], case.dims["N"])
    (dtype('float16'), True)

    Attributes:
        seed: the 64-bit seed; ``kcheck run SPEC --case-seed SEED`` runs the same case.
        dims, params: by name; params are NumPy scalars of their dtype.
        dtypes: the dtype drawn for each type variable.
        layouts: by array: ``contiguous``, ``strided`` ...
    """

    def __init__(self, spec: OpSpec, case: model.Case, arrays: CaseArrays | None = None) -> None:
        self._spec = spec
        self._case = case
        self._given = arrays
        self.seed = case.seed
        self.dims: Mapping[str, int] = dict(case.dims)
        self.dtypes: Mapping[str, str] = dict(case.dtypes)
        self.layouts: Mapping[str, str] = dict(case.layouts)

    @property
    def id(self) -> str:
        """``softmax[iter_12-M=3-N=65-T=float32]``."""
        return self._case.id

    @cached_property
    def _arrays(self) -> CaseArrays:
        return materialize(self._spec, self._case) if self._given is None else self._given

    @cached_property
    def _memory(self) -> dict[str, HostArray]:
        """A copy of every allocation, for the op to read and write."""
        return {
            name: HostArray(allocation, allocation.buffer) for name, allocation in self._arrays.allocations.items()
        }

    @property
    def params(self) -> Mapping[str, np.generic]:
        """The params by name, rounded to their dtype."""
        return dict(self._arrays.params)

    @cached_property
    def inputs(self) -> Mapping[str, Array]:
        """The inputs by name, in the memory layout of the case. The op must not change them, except those that the
        spec lists in ``mutates`` or as an ``alias``."""
        return {name: self._view(name) for name in self._spec.inputs}

    @cached_property
    def outputs(self) -> Mapping[str, Array]:
        """Arrays to write the outputs to, for an op that does not return them; filled with a poison value."""
        return {name: self._view(name) for name in self._spec.outputs}

    def _view(self, name: str) -> Array:
        return self._memory[self._arrays.allocation(name).name].array

    @cached_property
    def cotangents(self) -> Mapping[str, Array]:
        """The c of ``sum(output * c)``, whose derivatives :meth:`judge` checks, by floating-point output: normally
        distributed, of the output's shape and dtype."""
        return cotangents(self._spec, self._arrays)

    def judge(
        self,
        output: object = None,
        gradients: Mapping[str, object] | None = None,
        *,
        flushes_subnormals: bool | None = None,
    ) -> Verdict:
        """Compare the results of the op with the reference, and check that it did not change its inputs.

        >>> import kcheck
        >>> import numpy as np
        >>> spec = kcheck.Spec(
        ...     "square", dims={"N": [8]}, inputs={"x": ["N"]}, outputs={"y": ["N"]}, reference=lambda x: x * x
        ... )
        >>> case = kcheck.case_of(spec, seed=1)
        >>> x, c = case.inputs["x"], case.cotangents["y"]
        >>> case.judge(x * x, gradients={"x": 2 * x * c}).passed
        True
        >>> case.judge(x * x, gradients={"x": x * c}).rule
        'gradient'

        Args:
            output: an array of any framework, a tuple in the order of the spec's outputs, or a dict by name.
                None: the op wrote to :attr:`outputs`.
            gradients: the derivatives of ``sum(output * c)``, with c from :attr:`cotangents`, by the name of a
                floating-point input; arrays of any framework. They are checked if the outputs pass.
            flushes_subnormals: whether subnormal inputs, results and intermediates may become 0, as JAX and
                TensorFlow flush them on a CPU. None: only if the output is one of their arrays. Pass True for one
                of their outputs that you converted to NumPy.

        Returns:
            The verdict. The tolerance is the noise floor of this case, unless the spec sets a different one.

        Raises:
            KernelError: a generator of the spec cannot be loaded.
            UserError: a name in ``gradients`` is not that of a floating-point input.
        """
        self._check_names(gradients or {})
        flushes = may_flush(output) if flushes_subnormals is None else flushes_subnormals
        if output is None:
            output = {
                name: values(memory, self._memory[memory.name].bytes().copy())
                for name, memory in ((name, self._arrays.allocation(name)) for name in self._spec.outputs)
            }
        outputs, wrong = returned_outputs(self._spec, self._arrays, output)
        derived, odd = returned_gradients(self._arrays, gradients or {}, None)
        after = {name: held.bytes() for name, held in self._memory.items()}
        changed = input_findings(self._spec, self._arrays.allocations, after, None)
        checked = ("mutated",) if self._spec.sanitize["mutated"] != "off" else ()
        found = (*wrong, *odd, *changed)
        outcome = Outcome(
            self._case,
            CALLER,
            outputs,
            {},
            found,
            checked=checked,
            gradients=derived,
            flushes=flushes,
        )
        return Verdict.of(judge(self._spec, self._arrays, outcome), snapshot(self._arrays))

    def _check_names(self, gradients: Mapping[str, object]) -> None:
        known = [name for name in self._spec.inputs if self._arrays.allocation(name).dtype.is_float]
        for name in gradients:
            if name not in known:
                fix = did_you_mean(name, known) or f"the floating-point inputs are {', '.join(known) or 'none'}"
                raise UserError(f"{self._spec.op}: gradients: {name!r} is not a floating-point input; {fix}")

    def __repr__(self) -> str:
        return f"<kcheck.Case {self.id}>"


def cases(spec: SpecLike, count: int | None = None, seed: int | None = None) -> Iterator[Case]:
    """Generate the cases of a spec. The caller runs the op, anywhere, and each case checks the result.

    >>> import kcheck
    >>> import numpy as np
    >>> def softmax(x):
    ...     e = np.exp(np.float32(x) - x.max(axis=1, keepdims=True))
    ...     return (e / e.sum(axis=1, keepdims=True)).astype(x.dtype)
    >>> for case in kcheck.cases("specs/softmax.yaml", count=3):
    ...     assert case.judge(softmax(case.inputs["x"])).passed

    Args:
        spec: a spec, with or without a kernel, or the path of a spec file.
        count: the number of generated cases, after the spec's examples; default: the spec's.
        seed: the master seed; default: the spec's.

    Raises:
        SpecError: the spec is invalid.
        UserError: the count or the seed is out of range.
    """
    found = model_of(spec)
    wanted = found.count if count is None else count_of(count, "count")
    planned = plan(found, count=wanted, master=found.seed if seed is None else seed_of(seed, "seed"))
    return (Case(found, case) for case in planned)


def case_of(spec: SpecLike, seed: int) -> Case:
    """Generate the case of a seed, with the same bits on every machine.

    >>> import kcheck
    >>> kcheck.case_of("specs/softmax.yaml", seed=7).seed
    7

    Args:
        spec: a spec, or the path of a spec file.
        seed: of the case, not of a run; in [0, 2**64).

    Raises:
        SpecError: the spec is invalid.
        UserError: the seed is out of range.
    """
    found = model_of(spec)
    return Case(found, expand(found, seed_of(seed, "seed")))
