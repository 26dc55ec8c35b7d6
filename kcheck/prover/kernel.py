"""One compiled kernel as a question: its parameters, arrays and shared memory as terms, and what it does with
them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import combinations, product

from kcheck.dataclass import dataclass
from kcheck.generator import element_type
from kcheck.model import DTYPES, NameArg, NumberArg, NumelArg, StrideArg
from kcheck.prover.assumptions import Assumptions, Contents
from kcheck.prover.bits import Bits, type_range
from kcheck.prover.execute import MOST_STEPS, SymbolicExecution
from kcheck.prover.launched import slots_of_launch
from kcheck.prover.launchers import HostLaunch, HostRun, HostScalar, LauncherArray, host_values
from kcheck.prover.loops import LoopSummary
from kcheck.prover.model import Parameters, Region, Trace, Unsupported
from kcheck.prover.prover import Prover
from kcheck.prover.terms import BLOCK, THREAD, UNIFORM, Atom, Formula, Poly, Terms
from kcheck.prover.variants import LauncherWay, SpecVariant, VariantSlot
from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.analysis import inline
from kcheck.ptx.analysis.kernel_facts import param_slots
from kcheck.ptx.program import ParamSlot
from kcheck.ptx.syntax.ast import Function, Variable
from kcheck.ptx.syntax.types import TYPES

_ALIGNMENT = 256
_MOST_STRIDE = 1 << 45
_CLASS_SECONDS = 5.0
_SMALL = 4096
"""Sizes up to this are preferred for a case that only has to be compiled."""


@dataclass(slots=True)
class Question:
    """A kernel, ready to be executed with terms."""

    terms: Terms
    prover: Prover
    assumptions: Assumptions
    function: Function
    cfg: control.Cfg
    regions: dict[Atom, Region] = field(default_factory=dict)
    arrays: dict[str, Region] = field(default_factory=dict)
    threads: tuple[Atom, ...] = ()
    blocks: tuple[Atom, ...] = ()
    loads: dict[str, Contents] = field(default_factory=dict)
    trace: Trace = field(default_factory=Trace)
    steps: int = 0
    """How many instructions were executed."""
    launched: Formula | None = None
    """The condition under which a launcher launches it."""
    ordered: bool = True
    """Whether the kernel is assumed to have no races: threads that load one word of shared memory between the same
    barriers then get one value."""


def execute(variant: SpecVariant, terms: Terms, prover: Prover, most_steps: int | None = None) -> Question:
    """Execute the kernel of a variant.

    Args:
        most_steps: to note each predicate that is computed, in a kernel that is too long if more instructions are
            executed; None: for proofs, which do not need them.

    Raises:
        Unsupported: something in it has no model.
        ProofTimeout: the time is over.
    """
    return _Builder(variant, terms, prover).question(most_steps)


class _Builder:
    def __init__(self, variant: SpecVariant, terms: Terms, prover: Prover) -> None:
        self.variant = variant
        self.terms = terms
        self.prover = prover
        spec = variant.spec
        self.assumed = Assumptions(terms, prover, spec, variant.dtypes)
        tree = variant.launch.module.tree
        self.tree = tree
        entry = tree.functions[variant.launch.entry]
        self.function = inline.expand(tree, entry, lambda operation: True)
        self.cfg = control.build(self.function, tree.file)
        self.q = Question(terms, prover, self.assumed, self.function, self.cfg)
        self.slots = variant.slots
        self._strides: dict[str, tuple[Poly, ...]] = {}
        self._symbols: dict[str, Atom] = {}

    def question(self, most_steps: int | None) -> Question:
        q = self.q
        self._assume()
        slots, _ = param_slots(self.function)
        parameters, offsets = self._parameters(slots)
        self._classes()
        specials = self._specials()
        self._variables()
        execution = SymbolicExecution(
            self.terms,
            self.prover,
            self.function,
            self.cfg,
            parameters,
            offsets,
            specials,
            q.regions,
            self._symbols,
            self._loaded,
            LoopSummary,
            MOST_STEPS if most_steps is None else most_steps,
            most_steps is not None,
        )
        q.trace = execution.run()
        q.steps = execution.steps
        self.prover.pairs = lambda loads: pair_facts(q, loads)
        return q

    def _assume(self) -> None:
        """Note what holds for the cases that launch this variant, and make its arrays."""
        variant, terms = self.variant, self.terms
        self.assumed.build(variant.params)
        for name, size in variant.sizes.items():
            self.prover.add(terms.compare("eq", self.assumed.names[name], terms.number(size)))
        for name, runs in variant.spans.items():
            size_ = self.assumed.names[name]
            self.prover.add(
                terms.any(
                    terms.all(
                        (terms.compare("ge", size_, terms.number(a)), terms.compare("le", size_, terms.number(b)))
                    )
                    for a, b in runs
                )
            )
        for name in (*variant.spec.inputs, *variant.spec.outputs):
            self._array(name)
        if variant.way is not None:
            self._launched(variant.way)

    def _launched(self, way: LauncherWay) -> None:
        """Note what the launcher launches, and where it does."""
        run = HostRun(self.assumed, way.decisions)
        launch = run.path_of(way.launcher, host_values(self.assumed)).launches[way.number]
        kernel = launch.kernel
        self.prover.add(launch.path)
        self.q.launched = launch.path
        self.assumed.launched(kernel.grid, kernel.block, kernel.shared)
        for value in launch.given:
            if isinstance(value, LauncherArray) and value.is_own:
                self._allocated(value)
        self.slots = tuple(slots_of_launch(launch))
        self._confirm_sizes(launch)

    def _allocated(self, array: LauncherArray) -> None:
        """An array that the launcher allocates: of its elements, nothing is known."""
        if array.name in self.q.arrays:
            return
        terms, itemsize = self.terms, DTYPES[array.dtype].itemsize
        elements, steps = terms.one, []
        for extent in reversed(array.shape):
            self.prover.add(terms.compare("ge", extent, terms.zero))
            steps.append(terms.scaled(elements, itemsize))
            elements = terms.product(elements, extent)
        base = terms.atom("base", (array.name,), (None, None), UNIFORM)
        self.q.arrays[array.name] = self.q.regions[base] = Region(
            array.name,
            "global",
            base,
            terms.scaled(elements, itemsize),
            _ALIGNMENT,
            array.shape,
            tuple(reversed(steps)),
            itemsize,
        )

    def _confirm_sizes(self, launch: HostLaunch) -> None:
        """Compare the grid and block with those of the launch of the variant's case."""
        seen, made = self.variant.launch, launch.kernel
        sizes = zip((*made.grid, *made.block), (*seen.grid, *seen.block), strict=True)
        if any(self._in_case(size) not in (None, there) for size, there in sizes):
            raise Unsupported(
                f"line {launch.line} of the launcher launches something else than what its code says"
            )

    # --- arrays

    def _owner(self, name: str) -> str:
        output = self.variant.spec.outputs.get(name)
        return name if output is None or output.alias is None else output.alias

    def _array(self, name: str) -> None:
        spec, terms = self.variant.spec, self.terms
        owner = self._owner(name)
        if owner in self.q.arrays:
            return
        array = spec.inputs.get(owner) or spec.outputs[owner]
        itemsize = element_type(array, self.variant.dtypes).itemsize
        shape = self.assumed.shape(array)
        for extent in shape:
            self.prover.add(terms.compare("ge", extent, terms.zero))
        kind = self.variant.layouts[owner]
        elements = terms.one
        steps = []
        for extent in reversed(shape):
            steps.append(elements)
            elements = terms.product(elements, extent)
        strides = tuple(terms.scaled(step, itemsize) for step in reversed(steps))
        if kind == "transposed":
            strides = terms.number(itemsize), terms.scaled(shape[0], itemsize)
        elif kind == "any":
            strides = tuple(
                terms.scaled(terms.var(f"stride of {owner} along axis {axis}", span, UNIFORM), itemsize)
                for axis, span in enumerate(stride_ranges(array.layouts, shape))
            )
        base = terms.atom("base", (owner,), (None, None), UNIFORM)
        written = owner in spec.outputs or owner in spec.mutates
        written = written or any(o.alias == owner for o in spec.outputs.values())
        aligned = all(layout in _ALIGNED for layout in array.layouts or ("contiguous",))
        self._strides[owner] = strides
        region = Region(
            owner,
            "global",
            base,
            terms.scaled(elements, itemsize),
            _ALIGNMENT if aligned else itemsize,
            shape,
            strides,
            itemsize,
            not written,
            "broadcast" not in array.layouts,
            kind != "any",
        )
        self.q.arrays[owner] = self.q.regions[base] = region
        if region.is_read_only and owner in spec.inputs:
            contents = self.assumed.contents(spec.inputs[owner])
            if contents is not None:
                self.q.loads[owner] = contents

    def _variables(self) -> None:
        """The variables of the kernel and of its module."""
        for variable in (*self.tree.variables.values(), *self.function.variables.values()):
            if variable.space not in ("shared", "local", "global", "const") or variable.name in self._symbols:
                continue
            atom = self.terms.atom(
                "base", (f"{variable.space} {variable.name}", variable.name), (None, None), UNIFORM
            )
            self._symbols[variable.name] = atom
            size = self._size(variable)
            self.q.regions[atom] = Region(
                variable.name,
                variable.space,  # type: ignore[arg-type]
                atom,
                size,
                max(variable.align, 1),
                is_read_only=False,
            )

    def _size(self, variable: Variable) -> Poly:
        if variable.count is None and variable.space == "shared":
            own = self.assumed.shared
            if own is not None:
                return own
            return self.terms.number(self.variant.launch.shared if self._is_triton else 0)
        count = variable.count if variable.count is not None else len(variable.initial)
        return self.terms.number(count * TYPES[variable.type].bytes)

    def stride_facts(self) -> list[Formula]:
        """How strides that are separate variables depend on each other, if all layouts of their array put gaps
        between rows (:func:`kcheck.generator.layouts.geometry`)."""
        terms, spec, found = self.terms, self.variant.spec, []
        for name, region in self.q.arrays.items():
            array = spec.inputs.get(name) or spec.outputs[name]
            own = [n for n in array.layouts if n not in ("contiguous", "offset")]
            if self.variant.layouts[name] != "any" or not set(own) <= {"strided", "padded"}:
                continue
            ways = []
            for layout in own:
                low, high, pad = (2, 3, (1, 3)) if layout == "strided" else (1, 1, (1, 7))
                least, most = terms.number(low), terms.number(high)
                rows = []
                for axis in reversed(range(len(region.shape))):
                    stride = terms.exact_quotient(region.strides[axis], region.itemsize)
                    assert stride is not None
                    rows += [terms.compare("ge", stride, least), terms.compare("le", stride, most)]
                    step = terms.product(stride, terms.most(region.shape[axis], terms.one))
                    a, b = pad if layout == "strided" or axis == len(region.shape) - 1 else (0, 0)
                    least, most = terms.sum(step, terms.number(a)), terms.sum(step, terms.number(b))
                ways.append(terms.all(rows))
            found.append(terms.any(ways))
        return found

    # --- parameters

    def _parameters(self, slots: tuple[ParamSlot, ...]) -> tuple[Parameters, dict[str, int]]:
        found: dict[int, tuple[Poly, int]] = {}
        if len(self.slots) != len(slots):
            raise Unsupported("the compiled kernel has other parameters than the launcher passes")
        for slot, place, variable in zip(self.slots, slots, self.function.params, strict=True):
            for part, at in _parts(slot, place):
                value = self._value(part, at.size)
                if value is not None and TYPES[variable.type].kind != "float":
                    found[at.offset] = value, at.size
                    self._confirm(value, at, part)
        return found, {place.name: place.offset for place in slots}

    def _value(self, slot: VariantSlot, size: int) -> Poly | None:
        terms, argument = self.terms, slot.argument
        if slot.part == "unused":
            return terms.zero
        if isinstance(argument, HostScalar):
            return argument.value
        if isinstance(argument, Poly):
            return argument
        if isinstance(argument, NameArg | LauncherArray) and slot.part != "value":
            region = self.q.arrays[self._owner(argument.name)]
            match slot.part:
                case "data":
                    return terms.of(region.base)
                case "itemsize":
                    return terms.number(region.itemsize)
                case "items":
                    found = terms.one
                    for extent in region.shape:
                        found = terms.product(found, extent)
                    return found
                case "shape":
                    return region.shape[slot.axis]
                case _:
                    return self._passed_stride(region, slot)
        if isinstance(argument, NameArg):
            return self.assumed.names.get(argument.name)
        if isinstance(argument, StrideArg):
            region = self.q.arrays[self._owner(argument.array)]
            stride = terms.exact_quotient(region.strides[argument.axis], region.itemsize)
            if stride is not None and size < 8:  # the launch leaves out a stride that does not fit
                low, high = type_range(True, 8 * size)
                self.prover.add(terms.compare("le", stride, terms.number(high)))
                self.prover.add(terms.compare("ge", stride, terms.number(low)))
            return stride
        if isinstance(argument, NumelArg):
            return self._value(VariantSlot(NameArg(argument.array, None, argument.span), "items"), size)
        if isinstance(argument, NumberArg):
            if argument.value is None:
                return terms.zero
            return terms.number(int(argument.value)) if isinstance(argument.value, int) else None
        raise Unsupported("an argument is a struct")

    def _passed_stride(self, region: Region, slot: VariantSlot) -> Poly:
        """A stride that a kernel gets. A launcher compiles the code for contiguous arrays also for those of one
        element in a row, whose strides may be different."""
        stride, terms = region.strides[slot.axis], self.terms
        if (
            not isinstance(slot.argument, LauncherArray)
            or slot.argument.is_own
            or self.variant.layouts[region.name] == "any"
        ):
            return stride
        any_stride = terms.var(f"any stride of {region.name} along axis {slot.axis}", (None, None), UNIFORM)
        return terms.either(
            terms.any(terms.compare("le", extent, terms.one) for extent in region.shape), any_stride, stride
        )

    def _confirm(self, value: Poly, place: ParamSlot, slot: VariantSlot) -> None:
        """Compare a parameter with the bytes of the launch of the variant's case."""
        number = self._in_case(value)
        if number is None or (slot.part == "stride" and self._is_empty(slot)):
            return
        passed = int.from_bytes(self.variant.launch.params[place.offset : place.offset + place.size], "little")
        if number % (1 << 8 * place.size) != passed and not isinstance(slot.argument, StrideArg):
            raise Unsupported(f"parameter {place.name} is not what the spec says")

    def _in_case(self, value: Poly) -> int | None:
        """A term in the variant's case; None if it has no number there."""
        case, arrays = self.variant.arrays.case, self.variant.arrays

        def by(atom: Atom) -> Poly | None:
            if atom.kind != "var":
                return None
            name = str(atom.arguments[0])
            known: object = case.dims.get(name, case.params.get(name))
            if name.startswith("stride of "):
                owner, _, axis = name.removeprefix("stride of ").rpartition(" along axis ")
                one = arrays.allocation(owner)
                known = one.passed_strides[int(axis)] // one.dtype.itemsize
            return self.terms.number(known) if isinstance(known, int) else None

        return self.terms.replaced(value, by, {}).constant

    def _is_empty(self, slot: VariantSlot) -> bool:
        if isinstance(slot.argument, LauncherArray):
            return any(self._in_case(extent) in (0, 1) for extent in slot.argument.shape)
        assert isinstance(slot.argument, NameArg)
        shape = self.variant.arrays.allocation(slot.argument.name).shape
        return 0 in shape or 1 in shape

    @property
    def _is_triton(self) -> bool:
        kernel = self.variant.spec.kernel
        return kernel is not None and kernel.kind == "triton"

    def _classes(self) -> None:
        """Note the class of values that Triton compiled the code for."""
        for condition in class_conditions(self.q, self.variant, self.variant.classes):
            self.prover.add(condition)

    # --- threads and blocks

    def _specials(self) -> dict[str, Poly]:
        terms, prover = self.terms, self.prover
        found: dict[str, Poly] = {}
        threads, blocks = [], []
        if self._is_triton:
            block: tuple[Poly, ...] = tuple(terms.number(n) for n in self.variant.launch.block)
        else:
            block = self.assumed.block
        self.assumed.block = block
        for axis, size, count, most in zip("xyz", block, self.assumed.grid, (1024, 1024, 64), strict=True):
            self._within(size, 1, most)
            bound = size.bounds[1]
            tid = terms.var(f"threadIdx.{axis}", (0, (most if bound is None else min(bound, most)) - 1), THREAD)
            if tid.bounds == (0, 0):
                tid = terms.zero
            prover.add(terms.compare("lt", tid, size))
            limit = (1 << 31) - 1 if axis == "x" else 65535
            self._within(count, 1, limit)
            high = count.bounds[1]
            ctaid = terms.var(f"blockIdx.{axis}", (0, (limit if high is None else min(high, limit)) - 1), BLOCK)
            if ctaid.bounds == (0, 0):
                ctaid = terms.zero
            prover.add(terms.compare("lt", ctaid, count))
            found |= {f"tid.{axis}": tid, f"ntid.{axis}": size, f"ctaid.{axis}": ctaid, f"nctaid.{axis}": count}
            threads += list(tid.atoms())
            blocks += list(ctaid.atoms())
        x, y, z = (found[f"tid.{axis}"] for axis in "xyz")
        linear = terms.sum(x, terms.product(block[0], terms.sum(y, terms.product(block[1], z))))
        found["laneid"] = terms.mod(linear, 32)
        found["WARP_SZ"] = terms.number(32)
        self.q.threads, self.q.blocks = tuple(threads), tuple(blocks)
        return found

    def _within(self, size: Poly, low: int, high: int) -> None:
        """A launch with another size is rejected before anything runs."""
        self.prover.add(self.terms.compare("ge", size, self.terms.number(low)))
        self.prover.add(self.terms.compare("le", size, self.terms.number(high)))

    # --- contents

    def _loaded(self, region: Region, offset: Poly, size: int, b: Bits) -> Poly | None:
        """The value of a load from an array that the kernel only reads: the same wherever the offset is."""
        spec, terms = self.variant.spec, self.terms
        if size != region.itemsize or region.name not in spec.inputs:
            return None
        dtype = element_type(spec.inputs[region.name], self.variant.dtypes)
        signed = not dtype.is_integer or dtype.name.startswith("int")
        bounds = type_range(signed, 8 * size)
        contents = self.q.loads.get(region.name)
        value = terms.of(terms.atom("load", (region.name, offset), bounds, offset.level))
        if contents is not None:
            atom = next(value.atoms())
            rules = (
                terms.all((case, terms.compare("ge", value, low), terms.compare("le", value, high)))
                for case, low, high in contents.ranges
            )
            self.prover.add(terms.any(rules), (atom,))
        return value


def _parts(slot: VariantSlot, place: ParamSlot) -> Iterator[tuple[VariantSlot, ParamSlot]]:
    """The members of a struct with their places among the parameters; another parameter as it is."""
    if slot.part != "members":
        yield slot, place
    for offset, size, member in slot.members:
        yield member, ParamSlot(place.name, place.offset + offset, size, size)


def stride_ranges(layouts: Sequence[str], shape: Sequence[Poly]) -> list[tuple[int, int]]:
    """The least and the greatest stride in elements along each axis, over the layouts whose strides are separate
    variables (:func:`kcheck.generator.layouts.geometry`)."""
    found: list[tuple[int, int]] | None = None
    for layout in layouts:
        if layout in ("contiguous", "offset") or (layout == "transposed" and len(shape) == 2):
            continue
        rows: list[tuple[int, int]] = []
        if layout in ("strided", "padded"):
            low, high = (2, 3) if layout == "strided" else (1, 1)
            for axis in reversed(range(len(shape))):
                rows.insert(0, (min(low, _MOST_STRIDE), min(high, _MOST_STRIDE)))
                least, most = shape[axis].bounds
                pad = (1, 3) if layout == "strided" else (1, 7) if axis == len(shape) - 1 else (0, 0)
                low = low * max(1, least or 0) + pad[0]
                high = _MOST_STRIDE if most is None else high * max(1, most) + pad[1]
        else:
            rows = [(-_MOST_STRIDE, _MOST_STRIDE)] * len(shape)
        if found is not None:
            rows = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(rows, found, strict=True)]
        found = rows
    return found or [(-_MOST_STRIDE, _MOST_STRIDE)] * len(shape)


@dataclass(frozen=True, slots=True)
class MissingClass:
    """Integers for which Triton would compile another kernel than those that were found.

    Attributes:
        classes: by the number of an argument.
        values: sizes and params that give them; empty if none are known.
    """

    classes: Mapping[int, str]
    values: Mapping[str, int]

    def __str__(self) -> str:
        told = {"1": "is 1", "16": "is a multiple of 16", "": "is neither 1 nor a multiple of 16"}
        return ", ".join(f"argument {n + 1} {told[word]}" for n, word in self.classes.items())


def missing_class(found: Sequence[SpecVariant]) -> MissingClass | None:
    """A combination of the classes of integers that the spec allows and that none of the kernels is compiled for;
    None if there is no other.

    Args:
        found: kernels that differ in nothing else.
    """
    numbers = sorted(found[0].classes)
    if not numbers:
        return None
    terms = Terms()
    builder = _Builder(found[0], terms, Prover(terms, _CLASS_SECONDS))
    q = builder.q
    builder._assume()
    strides = builder.stride_facts()
    dims = [name for name in found[0].spec.dims if name in q.assumptions.names]
    small = [terms.compare("le", q.assumptions.names[name], terms.number(_SMALL)) for name in dims]
    seen = {tuple(variant.classes[n] for n in numbers) for variant in found}
    for words in product(("1", "16", ""), repeat=len(numbers)):
        if words in seen:
            continue
        classes = dict(zip(numbers, words, strict=True))
        conditions = [*class_conditions(q, found[0], classes), *strides]
        answer = builder.prover.together(conditions)
        if answer.kind != "no":
            easier = builder.prover.together([*conditions, *small])
            return MissingClass(classes, easier.values or answer.values)
    return None


def class_conditions(q: Question, variant: SpecVariant, classes: Mapping[int, str]) -> list[Formula]:
    """What the classes of values that Triton compiles for say about the arguments."""
    builder_terms = q.terms
    found = []
    for number, word in classes.items():
        value = argument_value(q, variant, number)
        if value is None:
            continue
        is_one = builder_terms.compare("eq", value, builder_terms.one)
        divides = builder_terms.compare("eq", builder_terms.mod(value, 16), builder_terms.zero)
        if word == "1":
            found.append(is_one)
        elif word == "16":
            found.append(divides)
        else:
            found += [builder_terms.negated(is_one), builder_terms.negated(divides)]
    return found


def argument_value(q: Question, variant: SpecVariant, number: int) -> Poly | None:
    """An integer argument as a term; None for another."""
    assert variant.spec.launch is not None
    argument = variant.spec.launch.args[number]
    if isinstance(argument, NameArg):
        return q.assumptions.names.get(argument.name)
    spec = variant.spec
    if isinstance(argument, StrideArg | NumelArg):
        output = spec.outputs.get(argument.array)
        region = q.arrays[argument.array if output is None or output.alias is None else output.alias]
        if isinstance(argument, NumelArg):
            return q.terms.exact_quotient(region.size, region.itemsize)
        return q.terms.exact_quotient(region.strides[argument.axis], region.itemsize)
    return None


def pair_facts(q: Question, loads: list[Atom]) -> list[Formula]:
    """What is known about two elements of one index array."""
    terms, found = q.terms, []
    for a, b in combinations(loads, 2):
        name = a.arguments[0]
        contents = q.loads.get(str(name))
        if contents is None or name != b.arguments[0]:
            continue
        first, second = a.arguments[1], b.arguments[1]
        assert isinstance(first, Poly)
        assert isinstance(second, Poly)
        x, y = terms.of(a), terms.of(b)
        if contents.ascends:
            found.append(terms.any((terms.compare("lt", second, first), terms.compare("le", x, y))))
            found.append(terms.any((terms.compare("lt", first, second), terms.compare("le", y, x))))
        if contents.differs:
            found.append(terms.any((terms.compare("eq", first, second), terms.compare("ne", x, y))))
        found.append(terms.any((terms.compare("ne", first, second), terms.compare("eq", x, y))))
    return found


_ALIGNED = frozenset({"contiguous", "padded", "strided", "transposed", "swapped", "broadcast", "channels_last"})
