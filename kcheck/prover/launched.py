"""The kernels that a launcher launches, for each choice of dtypes and layouts and each way through its code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from kcheck.device import Device
from kcheck.device.call import load_launcher
from kcheck.errors import SpecError
from kcheck.generator import Expander, materialize
from kcheck.model import Case, Choices, Example, Input, OpSpec, Output, Range
from kcheck.prover.assumptions import Assumptions
from kcheck.prover.launchers import HostLaunch, HostPath, HostScalar, LauncherArray, host_paths, host_values
from kcheck.prover.model import Unsupported
from kcheck.prover.prover import Prover
from kcheck.prover.terms import Atom, Formula, Poly, Terms
from kcheck.prover.variants import (
    LauncherWay,
    SpecVariant,
    VariantSlot,
    all_taken,
    baked_names,
    fields_of,
    layout_groups,
    owned,
    refuse,
    seeds_of,
)

_SCOUT_SECONDS = 5.0
_SMALL = 4096
"""Sizes up to this are preferred for a case that only has to be compiled."""


def launcher_variants(spec: OpSpec, device: Device) -> Iterator[SpecVariant]:
    """The kernels that a launcher launches, for each choice of dtypes and layouts and each way through its code.

    A case of each way is run up to its launches, which gives the compiled kernels.

    Raises:
        Unsupported: a launch, or the code of the launcher, is not understood.
        KernelError, SpecError: the launcher cannot be loaded, or does not match the spec.
    """
    refuse(spec)
    device.prepare(spec)
    if baked_names(spec):
        raise Unsupported("the code is compiled for each value of a size")
    launcher = load_launcher(spec)
    groups = {name: layout_groups(array) for name, array in owned(spec).items()}
    for name, found in groups.items():
        _refuse_layouts(name, owned(spec)[name], found)
    for dtypes, layouts in product(
        product(*(variable.choices for variable in spec.dtypes.values())), product(*groups.values())
    ):
        kinds = {name: kind for name, (kind, _) in zip(groups, layouts, strict=True)}
        example = Example(
            spec.span,
            dtypes=dict(zip(spec.dtypes, dtypes, strict=True)),
            layouts={name: layout for name, (_, layout) in zip(groups, layouts, strict=True)},
        )
        terms = Terms()
        prover = Prover(terms, _SCOUT_SECONDS)
        assumed = Assumptions(terms, prover, spec, example.dtypes)
        assumed.build({})
        for path in host_paths(assumed, launcher, host_values(assumed)):
            if path.launches:
                yield from _launches(
                    spec,
                    device,
                    example,
                    kinds,
                    assumed,
                    LauncherWay(launcher, path.decisions, 0, repr(path)),
                    path,
                )


def _refuse_layouts(name: str, array: Input | Output, groups: Sequence[tuple[str, str]]) -> None:
    """Raises Unsupported for layouts of which an array of few elements may have the type of another one, for which
    the launcher compiles code that is not looked at."""
    kinds = {kind for kind, _ in groups}
    known = ("contiguous", "offset", "strided", "padded", "reversed", "broadcast", "transposed")
    if kinds == {"contiguous"}:
        return
    if "contiguous" not in kinds or len(array.shape) > 2 or not set(array.layouts) <= set(known):
        raise Unsupported(f"the type that the launcher compiles for depends on the sizes of {name}")


def _launches(
    spec: OpSpec,
    device: Device,
    example: Example,
    kinds: Mapping[str, str],
    assumed: Assumptions,
    way: LauncherWay,
    path: HostPath,
) -> Iterator[SpecVariant]:
    """The launches of one way through a launcher, with what is compiled for them."""
    terms = assumed.terms
    wanted = [path.path]
    for launch in path.launches:
        sizes = (*launch.kernel.grid, *launch.kernel.block)
        wanted += [terms.compare("ge", size, terms.one) for size in sizes]
    passed = {value.name for launch in path.launches for value in launch.given if isinstance(value, LauncherArray)}
    for name, array in owned(spec).items():
        if kinds[name] != "contiguous" and name in passed:
            # An array with one element in a row may have the type of a contiguous one, which is another kernel.
            wanted += [terms.compare("gt", extent, terms.one) for extent in assumed.shape(array)]
    small = [terms.compare("le", assumed.names[name], terms.number(_SMALL)) for name in spec.dims]
    answer = assumed.prover.together([*wanted, *small])
    if answer.kind == "no":
        answer = assumed.prover.together(wanted)
    if answer.kind == "no":
        if all(kinds.get(name, "contiguous") == "contiguous" for name in passed):
            raise Unsupported("no sizes were found for which all launches of the launcher are valid")
        if any(kinds[n] != "contiguous" and len(a.shape) > 1 for n, a in owned(spec).items() if n in passed):
            raise Unsupported("the types that the launcher compiles for depend on the sizes of arrays")
        return  # a row of one element has the type of a contiguous one
    dims = {n: v for n, v in answer.values.items() if n in spec.dims and _is_drawn(spec, n)}
    params = {n: v for n, v in answer.values.items() if n in spec.params and spec.params[n].expr is None}
    expander = Expander(spec)
    for seed in seeds_of(spec, 0):
        try:
            case = expander.case(seed, "prove", replace(example, dims=dims, params=params))
            arrays = materialize(spec, case)
        except SpecError:
            continue
        if _in_case(assumed, terms.all(wanted), case) is not terms.true:
            continue
        found = all_taken(spec, device, arrays)
        if len(found) < len(path.launches) or len(found) % len(path.launches):
            raise Unsupported("the launcher launches something else than what its code says")
        if any(launch.cooperative for launch in found):
            raise Unsupported("blocks wait for each other")
        for number in range(len(path.launches)):
            yield SpecVariant(
                spec, arrays, found[number], case.dtypes, kinds, {}, {}, (), {}, {}, replace(way, number=number)
            )
        return
    raise Unsupported("no case was found for one way through the launcher")


def _in_case(assumed: Assumptions, condition: Formula, case: Case) -> Formula:
    """A condition with the sizes and params of a case."""

    def by(atom: Atom) -> Poly | None:
        known = case.dims.get(str(atom.arguments[0]), case.params.get(str(atom.arguments[0])))
        return assumed.terms.number(known) if atom.kind == "var" and isinstance(known, int) else None

    return assumed.terms.replaced_condition(condition, by, {})


def _is_drawn(spec: OpSpec, name: str) -> bool:
    return isinstance(spec.dims[name].domain, Range | Choices)


def slots_of_launch(launch: HostLaunch) -> Iterator[VariantSlot]:
    """What the parameters of a kernel that a launcher launches are.

    Raises:
        Unsupported: an argument has no model.
    """
    for value in launch.given:
        if isinstance(value, LauncherArray) and not value.on_host:
            if launch.kernel.named:
                yield VariantSlot(value, "data")
            else:
                yield from fields_of(value, len(value.shape))
        elif isinstance(value, Poly | HostScalar):
            yield VariantSlot(value, "value")
        else:
            raise Unsupported(f"line {launch.line} of the launcher passes what is neither an array nor a number")
