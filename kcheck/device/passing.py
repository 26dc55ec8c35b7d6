"""The arguments of a launch: arrays on the device, scalars, objects, and structs of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kcheck.device.base import Staged
from kcheck.device.kinds.base import Passed
from kcheck.device.kinds.objects import Objects
from kcheck.device.plan import scalar_argument
from kcheck.generator import Allocation, CaseArrays
from kcheck.model import AccessorArg, Argument, NameArg, NumberArg, OpSpec, StructArg, TextureArg


def passed_arguments(
    spec: OpSpec,
    arguments: Iterable[Argument],
    arrays: CaseArrays,
    staged: Mapping[str, Staged],
    objects: Objects | None,
) -> tuple[Passed, ...]:
    """The arguments of a case, in order.

    Args:
        arguments: those of the launch, or the values of variables.
        objects: creates texture and surface objects; None for kinds of kernels that cannot have them.
    """
    owners = {name: arrays.allocation(name) for name in (*spec.inputs, *spec.outputs)}

    def passed(arg: Argument) -> Passed:
        if isinstance(arg, TextureArg):
            assert objects is not None
            owner = owners[arg.array]
            return Passed(arg, objects.add(arg, owner, staged[owner.name].array), "uint64", False)
        if isinstance(arg, StructArg):
            return Passed(arg, None, "", False, fields=tuple(passed(part) for _, part in arg.fields))
        if isinstance(arg, AccessorArg):
            return Passed(arg, None, "", False, fields=tuple(map(passed, _accessed(arg, owners[arg.array]))))
        if isinstance(arg, NameArg) and arg.name in owners:
            owner = owners[arg.name]
            return Passed(arg, staged[owner.name].array, owner.dtype.name, True)
        if isinstance(arg, NumberArg) and arg.value is None:
            return Passed(arg, None, "", False)
        value = scalar_argument(arrays.case, arrays.params, owners, arg)
        return Passed(arg, value, value.dtype.name, False, isinstance(arg, NameArg) and arg.name in spec.params)

    return tuple(map(passed, arguments))


def _accessed(arg: AccessorArg, array: Allocation) -> Iterator[Argument]:
    """What an accessor of an array has: the array, then its sizes and its strides in elements."""
    yield NameArg(arg.array, None, arg.span)
    yield from (NumberArg(size, arg.span) for size in array.shape)
    yield from (NumberArg(stride // array.dtype.itemsize, arg.span) for stride in array.passed_strides)
