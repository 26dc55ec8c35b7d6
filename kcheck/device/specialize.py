"""The argument types of a kernel, from the dtypes and layouts that its spec declares. Does not import Numba.

This is for kernels of ``launch:``. The types of a ``launcher:`` are recorded when it launches (``kcheck.device``),
because only its code determines them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from kcheck.device.plan import default_dtype
from kcheck.model import AccessorArg, Argument, Case, Input, NameArg, NumberArg, OpSpec, Output, StructArg
from kcheck.model.calls import DEFAULT_INTEGER
from kcheck.model.compiled import ArrayType, ScalarType, Signature


def signatures(spec: OpSpec) -> tuple[Signature, ...]:
    """Every signature with which the cases of a spec with ``launch:`` can call its kernel, each once, in order.

    Source of the layouts: Numba types an array as C if it is C-contiguous, F if Fortran-contiguous, else A.
    """
    if spec.launch is None:
        return ()
    found: dict[Signature, None] = {}
    names = list(spec.dtypes)
    for choice in product(*(spec.dtypes[name].choices for name in names)):
        dtypes = dict(zip(names, choice, strict=True))
        for signature in _by_layout(spec, dtypes):
            found.setdefault(signature, None)
    return tuple(found)


def signature_of_case(spec: OpSpec, case: Case) -> Signature:
    """The signature of a launch as far as dtypes go: each array counts as C-contiguous, because its kernel
    gets a pointer."""
    assert spec.launch is not None
    letters = dict.fromkeys((*spec.inputs, *spec.outputs), "C")
    return tuple(_argument(spec, arg, case.dtypes, letters) for arg in spec.launch.args)


def of_any_stride(spec: OpSpec, cases: Iterable[Case]) -> tuple[Signature, ...]:
    """The signatures that cases need if all their arrays count as strided, in the order of the cases."""
    assert spec.launch is not None
    owners = (_owner(spec, name) for name in (*spec.inputs, *spec.outputs))
    letters = {name: "A" if _array(spec, name).shape else "C" for name in owners if name is not None}
    return tuple(
        dict.fromkeys(
            tuple(_argument(spec, arg, case.dtypes, letters) for arg in spec.launch.args) for case in cases
        )
    )


def in_order(spec: OpSpec, cases: Iterable[Case]) -> tuple[Signature, ...]:
    """Every signature of a spec with ``launch:``: those that its cases need, in that order, then the others."""
    order: dict[Signature, None] = {}
    for case in cases:
        owners = (_owner(spec, name) for name in (*spec.inputs, *spec.outputs))
        letters = {name: _letter(_array(spec, name), case.layouts[name]) for name in owners if name is not None}
        assert spec.launch is not None
        order.setdefault(tuple(_argument(spec, arg, case.dtypes, letters) for arg in spec.launch.args))
    known = signatures(spec)
    return (*(signature for signature in order if signature in known), *(s for s in known if s not in order))


def _by_layout(spec: OpSpec, dtypes: Mapping[str, str]) -> Iterator[Signature]:
    assert spec.launch is not None
    owners = (_owner(spec, arg.name) for arg in spec.launch.args if isinstance(arg, NameArg))
    arrays = {name: _array(spec, name) for name in owners if name is not None}
    for layouts in product(*(dict.fromkeys(_letter(a, layout) for layout in a.layouts) for a in arrays.values())):
        letters = dict(zip(arrays, layouts, strict=True))
        yield tuple(_argument(spec, arg, dtypes, letters) for arg in spec.launch.args)


def _argument(
    spec: OpSpec, arg: Argument, dtypes: Mapping[str, str], letters: Mapping[str, str]
) -> ArrayType | ScalarType:
    if isinstance(arg, StructArg):
        return ScalarType("struct")
    if isinstance(arg, AccessorArg):
        accessed = _array(spec, _owner(spec, arg.array) or arg.array)
        return ArrayType(dtypes.get(accessed.dtype, accessed.dtype), len(accessed.shape), "A")
    if isinstance(arg, NumberArg):
        return ScalarType("null" if arg.value is None else arg.dtype or default_dtype(arg.value))
    if not isinstance(arg, NameArg):
        return ScalarType(arg.dtype or DEFAULT_INTEGER)
    if arg.name in spec.params:
        dtype = spec.params[arg.name].dtype
        return ScalarType(dtypes.get(dtype, dtype))
    owner = _owner(spec, arg.name)
    if owner is None:
        return ScalarType(arg.dtype or DEFAULT_INTEGER)
    array = _array(spec, owner)
    return ArrayType(dtypes.get(array.dtype, array.dtype), len(array.shape), letters[owner])


def _owner(spec: OpSpec, name: str) -> str | None:
    """The array whose memory a name refers to: for an aliased output, its input. None if it is not an array."""
    if name in spec.outputs:
        return spec.outputs[name].alias or name
    return name if name in spec.inputs else None


def _array(spec: OpSpec, name: str) -> Input | Output:
    return spec.inputs[name] if name in spec.inputs else spec.outputs[name]


def _letter(array: Input | Output, layout: str) -> str:
    ndim = len(array.shape)
    if layout in ("contiguous", "offset") or ndim == 0:
        return "C"
    if layout == "transposed":
        return {1: "C", 2: "F"}.get(ndim, "A")
    return "A"
