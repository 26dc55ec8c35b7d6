"""The kernels that a spec's cases launch: one for each choice of dtypes, layouts and constants that needs other
code.

A case of each is prepared as for a run, and what would be launched is taken: its PTX, and the bytes of its
parameters. What each parameter is follows from the arguments of the spec; the bytes confirm it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from kcheck.cpu.launches import KernelLaunch
from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.device.cpu import silenced
from kcheck.device.kinds import KINDS
from kcheck.device.kinds.compiled import CompiledKind
from kcheck.device.kinds.structs import wanted_members
from kcheck.errors import SpecError
from kcheck.generator import CaseArrays, Expander, materialize
from kcheck.model import (
    AccessorArg,
    Argument,
    Case,
    Choices,
    CudaOptions,
    Example,
    Input,
    NameArg,
    OpSpec,
    Output,
    Range,
    StructArg,
    TextureArg,
    TritonOptions,
    leaves,
)
from kcheck.prover.launchers import HostValue, LauncherArray
from kcheck.prover.model import Unsupported
from kcheck.rng import derive
from kcheck.symbolic import ExpressionError, evaluate, parse
from kcheck.symbolic import names as names_in

_MOST = 48
_MOST_SIZES = 1 << 14
_SEEDS = 30
_CLASS_SEEDS = 60
"""The cases that are drawn with given sizes: the layouts leave strides open."""


@dataclass(frozen=True, eq=False, slots=True)
class VariantSlot:
    """One parameter of the compiled kernel.

    Attributes:
        part: what it is of the argument: ``value``, ``data``, ``items``, ``itemsize``, ``shape``, ``stride``,
            ``members``, or ``unused``.
        axis: of a shape or stride.
        members: of a struct: (offset in it, bytes, the member).
    """

    argument: Argument | HostValue
    part: str
    axis: int = 0
    members: tuple[tuple[int, int, VariantSlot], ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class LauncherWay:
    """Which launch of a launcher it is: the decisions of its branches, and the number of the launch; ``told``: all
    launches of this way, as text."""

    launcher: Callable[..., Any]
    decisions: tuple[bool, ...]
    number: int
    told: str


@dataclass(frozen=True, eq=False, slots=True)
class SpecVariant:
    """One kernel as it is launched.

    Attributes:
        arrays: those of a case that launches it.
        layouts: by array, ``contiguous``, ``transposed``, or ``any``.
        params: the values of the params that it is compiled for.
        sizes: the dims that it is compiled for.
        slots: its parameters; empty for a launcher.
        classes: by number of an argument, the class of values that it is compiled for, as Triton has them.
        spans: the ranges of dims for which the constants are these.
        way: of a launcher, the launch.
    """

    spec: OpSpec
    arrays: CaseArrays
    launch: KernelLaunch
    dtypes: Mapping[str, str]
    layouts: Mapping[str, str]
    params: Mapping[str, object]
    sizes: Mapping[str, int]
    slots: tuple[VariantSlot, ...]
    classes: Mapping[int, str]
    spans: Mapping[str, tuple[tuple[int, int], ...]]
    way: LauncherWay | None = None

    def has_constants_of(self, case: Case) -> bool:
        """Whether a case has the constants that the kernel is compiled for. Its dtypes and layouts may differ."""
        return _has_constants(case, {**self.params, **self.sizes}, self.spans)


def _has_constants(
    case: Case, constants: Mapping[str, object], spans: Mapping[str, tuple[tuple[int, int], ...]]
) -> bool:
    known: dict[str, object] = {**case.params, **case.dims}
    return all(known.get(name) == value for name, value in constants.items()) and all(
        any(low <= case.dims[name] <= high for low, high in runs) for name, runs in spans.items()
    )


def refuse(spec: OpSpec) -> None:
    """Raises Unsupported if only code that runs on the host knows what is launched."""
    if spec.function is not None:
        raise Unsupported("the spec runs a function of arrays, not a kernel")
    if spec.variables:
        raise Unsupported("the spec sets variables of the module")
    if spec.launch is None:
        return
    for argument in leaves(spec.launch.args):
        if isinstance(argument, TextureArg):
            raise Unsupported(f"{argument.array} is read through a texture or a surface")
    if any(isinstance(a, AccessorArg) for a in leaves(spec.launch.args)):
        raise Unsupported("an argument is an accessor")
    if spec.launch.cooperative:
        raise Unsupported("blocks wait for each other")


def variants(spec: OpSpec, device: Device) -> Iterator[SpecVariant]:
    """Every kernel that the cases of a spec may launch.

    Raises:
        Unsupported: there are too many, or a launch is not understood.
        KernelError, SpecError: the kernel cannot be loaded, or does not match the spec.
    """
    refuse(spec)
    device.prepare(spec)
    groups = {name: layout_groups(array) for name, array in owned(spec).items()}
    every = list(
        product(
            product(*(variable.choices for variable in spec.dtypes.values())),
            product(*groups.values()),
            _baked(spec),
        )
    )
    if len(every) > _MOST:
        raise Unsupported(f"the kernel is compiled in {len(every)} ways")
    for dtypes, layouts, baked in every:
        drawn = {name: layout for name, (_, layout) in zip(groups, layouts, strict=True)}
        kinds = {name: kind for name, (kind, _) in zip(groups, layouts, strict=True)}
        example = Example(
            spec.span,
            dtypes=dict(zip(spec.dtypes, dtypes, strict=True)),
            layouts=drawn,
            params=dict(baked.drawn),
        )
        yield from _launched(spec, device, example, kinds, baked)


def variants_of(
    spec: OpSpec, device: Device, cases: Iterable[Case], *, any_dtypes: bool = False
) -> Iterator[SpecVariant]:
    """The kernels that given cases launch, each once.

    Args:
        any_dtypes: of kernels that differ in dtypes and layouts only, the first one.

    Raises:
        Unsupported, KernelError, SpecError: as for :func:`variants`.
    """
    refuse(spec)
    device.prepare(spec)
    arrays_of, every = owned(spec), _baked(spec)
    is_triton = spec.kernel is not None and spec.kernel.kind == "triton"
    seen: set[object] = set()
    for case in cases:
        baked = next((one for one in every if one.has(case)), None)
        if baked is None:
            continue
        kinds = {name: _kind(array, case.layouts[name]) for name, array in arrays_of.items()}
        types = () if any_dtypes else (tuple(case.dtypes.items()), tuple(kinds.items()))
        arrays = materialize(spec, case)
        key = (types, every.index(baked), _classes(spec, arrays) if is_triton else ())
        if key in seen:
            continue
        seen.add(key)
        found = _taken(spec, device, arrays)
        if found is not None:
            slots, classes = _slots(spec, found, arrays)
            yield SpecVariant(
                spec, arrays, found, case.dtypes, kinds, baked.params, baked.sizes, slots, classes, baked.spans()
            )


def owned(spec: OpSpec) -> dict[str, Input | Output]:
    return {**spec.inputs, **{name: output for name, output in spec.outputs.items() if output.alias is None}}


def layout_groups(array: Input | Output) -> list[tuple[str, str]]:
    """(what is known about the strides, one layout) for the layouts of an array that are treated alike."""
    found: dict[str, str] = {}
    for layout in array.layouts or ("contiguous",):
        found.setdefault(_kind(array, layout), layout)
    return list(found.items())


def _kind(array: Input | Output, layout: str) -> str:
    """What is known about the strides of a layout."""
    if layout in ("contiguous", "offset") or not array.shape:
        return "contiguous"
    return "transposed" if layout == "transposed" and len(array.shape) == 2 else "any"


@dataclass(frozen=True, eq=False, slots=True)
class _Baked:
    """One choice of what the compiler gets as constants.

    Attributes:
        params: the values of params, also of derived ones; ``drawn``: those of them that a case draws.
        sizes: the dims that are constants.
        ranged: the dim on which derived constants depend, and the values of it that give these constants.
    """

    params: Mapping[str, int | float | bool]
    drawn: Mapping[str, int | float | bool]
    sizes: Mapping[str, int]
    ranged: tuple[str, tuple[int, ...]] | None = None

    def spans(self) -> Mapping[str, tuple[tuple[int, int], ...]]:
        """The ranges that the values of the dim form."""
        if self.ranged is None:
            return {}
        name, values = self.ranged
        runs: list[tuple[int, int]] = []
        for value in values:
            if runs and runs[-1][1] == value - 1:
                runs[-1] = runs[-1][0], value
            else:
                runs.append((value, value))
        return {name: tuple(runs)}

    def has(self, case: Case) -> bool:
        """Whether the constants are those of a case."""
        return _has_constants(case, {**self.params, **self.sizes}, self.spans())

    def dims(self, attempt: int) -> Mapping[str, int]:
        """The dims of an attempt to draw a case: the values differ in what compilers look at."""
        if self.ranged is None:
            return self.sizes
        name, values = self.ranged
        even = [v for v in values if v % 16 == 0]
        step = max(len(values) // 8, 1)
        order = list(dict.fromkeys([values[0], *even[:2], *values[1::step], values[-1], *even[2::2]]))
        return {**self.sizes, name: order[attempt % len(order)]}


def _baked(spec: OpSpec) -> list[_Baked]:
    """The dims and the params that the compiler gets as constants, in each combination."""
    names = baked_names(spec)
    free: list[str] = []
    for name in names:
        _add_free(spec, name, free)
    ranged = [n for n in free if n in spec.dims and isinstance(spec.dims[n].domain, Range)]
    values: dict[str, Sequence[int | float | bool]] = {}
    for name in free:
        if name in spec.params:
            values[name] = spec.params[name].values
        else:
            domain = spec.dims[name].domain
            if isinstance(domain, Range):
                if len(ranged) > 1 or domain.high - domain.low > _MOST_SIZES:
                    raise Unsupported(f"the code is compiled for each size {name}")
                values[name] = range(domain.low, domain.high + 1)
            elif isinstance(domain, Choices):
                values[name] = domain.values
    sized = ranged[0] if ranged else None
    found: dict[tuple[object, ...], tuple[dict[str, int | float | bool], list[int]]] = {}
    for combination in product(*values.values()):
        known = dict(zip(values, combination, strict=True))
        everything = _with_derived(spec, names, known)
        key = tuple(everything[n] for n in dict.fromkeys([*names, *(n for n in free if n != sized)]))
        sizes = found.setdefault(key, (everything, []))[1]
        if sized is not None:
            sizes.append(int(known[sized]))
        if len(found) > _MOST:
            raise Unsupported(f"the kernel is compiled in more than {_MOST} ways")
    return [
        _Baked(
            {n: v for n, v in everything.items() if n in spec.params},
            {n: v for n, v in everything.items() if n in spec.params and n in values},
            {n: int(v) for n, v in everything.items() if n in spec.dims and n != sized and n in values},
            None if sized is None else (sized, tuple(sizes)),
        )
        for everything, sizes in found.values()
    ]


def baked_names(spec: OpSpec) -> list[str]:
    names: list[str] = []
    options = spec.compile
    if isinstance(options, TritonOptions):
        names = [*options.constexprs, *options.options, *options.config_keys]
        if options.config == "best":
            raise Unsupported("autotuning chooses the configuration")
    elif isinstance(options, CudaOptions):
        for value in options.defines.values():
            try:
                names += [n for n in names_in(parse(value.text)) if n in spec.dims or n in spec.params]
            except ExpressionError:  # text of C++, which has no names of the spec
                continue
    return list(dict.fromkeys(n for n in names if n in spec.params or n in spec.dims))


def _expression(spec: OpSpec, name: str) -> str | None:
    """The expression of a derived dim or param."""
    if name in spec.params:
        expr = spec.params[name].expr
        return None if expr is None else expr.text
    domain = spec.dims[name].domain
    return None if isinstance(domain, Range | Choices) else domain.text


def _add_free(spec: OpSpec, name: str, free: list[str]) -> None:
    """Add the drawn dims and params on which a name depends."""
    text = _expression(spec, name)
    if text is None:
        if name not in free:
            free.append(name)
        return
    for inner in names_in(parse(text)):
        if inner in spec.params or inner in spec.dims:
            _add_free(spec, inner, free)
        elif not inner.startswith("sizeof("):
            raise Unsupported(f"the code is compiled for each value of {name}")


def _with_derived(
    spec: OpSpec, names: Sequence[str], known: Mapping[str, int | float | bool]
) -> dict[str, int | float | bool]:
    """The values of the names, from those of what is drawn."""
    found = dict(known)

    def value(name: str) -> int | float | bool:
        if name not in found:
            text = _expression(spec, name)
            assert text is not None
            node = parse(text)
            try:
                found[name] = evaluate(node, {n: value(n) for n in names_in(node)})
            except (ExpressionError, KeyError) as error:
                raise Unsupported(f"the code is compiled for each value of {name}") from error
        return found[name]

    for name in names:
        value(name)
    return found


def _launched(
    spec: OpSpec, device: Device, example: Example, kinds: Mapping[str, str], baked: _Baked
) -> Iterator[SpecVariant]:
    """The kernels of the cases with these choices: several if the compiler looks at the values of arguments."""
    expander = Expander(spec)
    is_triton = spec.kernel is not None and spec.kernel.kind == "triton"
    seen: set[object] = set()
    drawn: set[tuple[str, ...]] = set()
    none = True
    for n in range(_SEEDS if is_triton else 1):
        for seed in seeds_of(spec, n):
            try:
                case = expander.case(seed, "prove", replace(example, dims=dict(baked.dims(n))))
            except SpecError:
                continue
            arrays = materialize(spec, replace(case, seed=seed))
            if is_triton and _classes(spec, arrays) in drawn:
                continue
            drawn.add(_classes(spec, arrays) if is_triton else ())
            found = _taken(spec, device, arrays)
            if found is None:
                continue
            none = False
            slots, classes = _slots(spec, found, arrays)
            key = (found.module.text, tuple(sorted(classes.items())))
            if key in seen:
                break
            seen.add(key)
            yield SpecVariant(
                spec, arrays, found, case.dtypes, kinds, baked.params, baked.sizes, slots, classes, baked.spans()
            )
            break
    if none:
        raise Unsupported("no case with these layouts and dtypes launches the kernel")


def of_classes(
    variant: SpecVariant, device: Device, classes: Mapping[int, str], values: Mapping[str, int]
) -> SpecVariant | None:
    """The kernel that Triton compiles for other classes of integers; None if no case of them was found.

    Args:
        variant: the same kernel for some classes.
        values: sizes and params that give these.
    """
    spec, case = variant.spec, variant.arrays.case
    dims = {
        n: values[n] for n, dim in spec.dims.items() if n in values and isinstance(dim.domain, Range | Choices)
    }
    params = {n: values[n] for n, param in spec.params.items() if param.expr is None and n in values}
    drawn = {n: v for n, v in case.params.items() if n in variant.params and spec.params[n].expr is None}
    example = Example(
        spec.span,
        dims=dims,
        dtypes=variant.dtypes,
        layouts={name: case.layouts[name] for name in owned(spec)},
        params={**params, **drawn},
    )
    expander = Expander(spec)
    for n in range(_CLASS_SEEDS):
        seed = derive(spec.seed, f"prove_class_{n}")
        try:
            arrays = materialize(spec, expander.case(seed, "prove", example))
        except SpecError:
            continue
        if _classes(spec, arrays) != tuple(classes.values()):
            continue
        found = _taken(spec, device, arrays)
        if found is not None:
            slots, given = _slots(spec, found, arrays)
            return replace(variant, arrays=arrays, launch=found, slots=slots, classes=given)
    return None


def _classes(spec: OpSpec, arrays: CaseArrays) -> tuple[str, ...]:
    """The classes of the integers of a case for which Triton compiles different code."""
    from kcheck.device.kinds.triton import argument_classes  # lazy: imports Triton

    return tuple(argument_classes(spec, arrays).values())


def seeds_of(spec: OpSpec, n: int) -> Iterable[int]:
    return (derive(spec.seed, f"prove_{n}_{again}") for again in range(12))


def _taken(spec: OpSpec, device: Device, arrays: CaseArrays) -> KernelLaunch | None:
    """What a case launches; None if its grid is empty."""
    return next(iter(all_taken(spec, device, arrays)), None)


def all_taken(spec: OpSpec, device: Device, arrays: CaseArrays) -> list[KernelLaunch]:
    """What a case launches, several times."""
    with silenced() as launches:
        outcome = device.run(spec, arrays, timeout=None)
    for finding in () if launches else outcome.findings:
        if finding.rule in ("compile", "unsupported"):
            raise Unsupported(f"the kernel does not compile: {finding.message}")
    return launches


def _slots(
    spec: OpSpec, launch: KernelLaunch, arrays: CaseArrays
) -> tuple[tuple[VariantSlot, ...], dict[int, str]]:
    """What each parameter of the kernel is.

    Raises:
        Unsupported: their number is not the one that the arguments give.
    """
    assert spec.launch is not None
    places = launch.module.entries[launch.entry].params
    classes: dict[int, str] = {}
    kind = spec.kernel.kind if spec.kernel is not None else "numba"
    found: list[VariantSlot] = []
    if kind == "numba":
        for argument in spec.launch.args:
            found += _of_numba(spec, argument)
    elif kind == "triton":
        from kcheck.device.kinds.triton import argument_classes, parameter_sources  # lazy: imports Triton

        kinds, classes = parameter_sources(spec, arrays), argument_classes(spec, arrays)
        for word, number in kinds:
            found.append(_plain(spec, spec.launch.args[number]))
            if word.startswith(("(", "tensordesc")):
                raise Unsupported("an argument is a tensor descriptor or a tuple")
        left = len(places) - len(found)
        found += [VariantSlot(spec.launch.args[0], "unused")] * max(left, 0)  # scratch memory, which is null
    else:
        found = [
            _of_struct(spec, arrays.case, number, argument)
            if isinstance(argument, StructArg)
            else _plain(spec, argument)
            for number, argument in enumerate(spec.launch.args)
        ]
    if len(found) != len(places):
        raise Unsupported("the compiled kernel has other parameters than the spec passes")
    return tuple(found), classes


def _plain(spec: OpSpec, argument: Argument) -> VariantSlot:
    is_array = isinstance(argument, NameArg) and (argument.name in spec.inputs or argument.name in spec.outputs)
    return VariantSlot(argument, "data" if is_array else "value")


def _of_struct(spec: OpSpec, case: Case, number: int, argument: StructArg) -> VariantSlot:
    """A struct, whose members are where the compiler puts them."""
    assert spec.kernel is not None
    kind = KINDS[spec.kernel.kind]
    places = kind.members(spec, case, number) if isinstance(kind, CompiledKind) else {}
    ((_, paths),) = wanted_members([argument])
    if any(path not in places for path in paths):
        raise Unsupported("an argument is a struct whose members only the caller knows")
    members = (
        (places[path].offset, places[path].size, _plain(spec, leaf))
        for path, leaf in zip(paths, leaves([argument]), strict=True)
    )
    return VariantSlot(argument, "members", members=tuple(members))


def _of_numba(spec: OpSpec, argument: Argument) -> Iterator[VariantSlot]:
    """The fields of Numba's arrays: meminfo, parent, items, itemsize, data, shape, strides."""
    array = None
    if isinstance(argument, NameArg):
        array = spec.inputs.get(argument.name) or spec.outputs.get(argument.name)
    if array is None:
        yield VariantSlot(argument, "value")
        return
    yield from fields_of(argument, len(array.shape))


def fields_of(argument: Argument | LauncherArray, rank: int) -> Iterator[VariantSlot]:
    yield VariantSlot(argument, "unused")
    yield VariantSlot(argument, "unused")
    yield VariantSlot(argument, "items")
    yield VariantSlot(argument, "itemsize")
    yield VariantSlot(argument, "data")
    for part in ("shape", "stride"):
        yield from (VariantSlot(argument, part, axis) for axis in range(rank))
