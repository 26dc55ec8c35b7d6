"""What a spec says about every case, as terms: sizes, params, the launch, the contents of index arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from kcheck.dataclass import dataclass
from kcheck.generator import element_type
from kcheck.model import DTYPES, Choices, Distribution, Example, Input, OpSpec, Output, Param, Range
from kcheck.prover.bits import Bits, type_range
from kcheck.prover.prover import Prover
from kcheck.prover.terms import UNIFORM, Formula, Poly, Terms
from kcheck.symbolic import dependency_order, parse
from kcheck.symbolic.ast import Binary, FunctionCall, Logical, Name, Node, Number, Relation, Unary

_FAR = 1 << 62


class NoTerm(Exception):
    """An expression that has no term, such as a square root."""


@dataclass(slots=True)
class Assumptions:
    """The names of one spec as terms, for one choice of its dtypes.

    Attributes:
        names: dims and integer params.
        grid, block: along x, y and z; ``shared``: bytes of dynamic shared memory.
    """

    terms: Terms
    prover: Prover
    spec: OpSpec
    dtypes: Mapping[str, str]
    names: dict[str, Poly] = field(default_factory=dict)
    grid: tuple[Poly, ...] = ()
    block: tuple[Poly, ...] = ()
    shared: Poly | None = None
    given: dict[str, Formula] = field(default_factory=dict)

    def build(self, params: Mapping[str, object]) -> None:
        """Make the names, and note what holds.

        Args:
            params: the values of params that this kernel is compiled for.
        """
        spec, terms = self.spec, self.terms
        derived = {}
        for name, dim in spec.dims.items():
            domain = dim.domain
            if isinstance(domain, Range):
                self.names[name] = terms.var(name, (domain.low, domain.high), UNIFORM)
            elif isinstance(domain, Choices):
                self.names[name] = self._chosen(name, domain.values)
            else:
                derived[name] = domain.text
        for name in dependency_order(derived):
            self.names[name] = self._named(name, self._value(derived[name], name))
        for name, param in spec.params.items():
            self._add_param(name, param, params)
        for constraint in spec.constraints:
            self._assume(constraint.text)
        if spec.launch is not None:
            grid = self._three([e.text for e in spec.launch.grid], "grid")
            block = self._three([e.text for e in spec.launch.block], "block")
            own = None if spec.launch.shared is None else self._value(spec.launch.shared.text, "shared")
            self.launched(grid, block, own)

    def launched(self, grid: tuple[Poly, ...], block: tuple[Poly, ...], shared: Poly | None) -> None:
        """Note the sizes of the launch; ``shared``: bytes of dynamic shared memory."""
        self.grid, self.block, self.shared = grid, block, shared
        for size in (*grid, *block):
            self.prover.add(self.terms.compare("ge", size, self.terms.one))

    def _three(self, texts: Sequence[str], what: str) -> tuple[Poly, ...]:
        found = [self._value(text, f"{what}.{'xyz'[n]}") for n, text in enumerate(texts)]
        return tuple((*found, self.terms.one, self.terms.one)[:3])

    def _chosen(self, name: str, values: Sequence[int]) -> Poly:
        terms = self.terms
        if len(set(values)) == 1:
            return terms.number(values[0])
        found = terms.var(name, (min(values), max(values)), UNIFORM)
        self.prover.add(terms.any(terms.compare("eq", found, terms.number(v)) for v in values))
        return found

    def _add_param(self, name: str, param: Param, params: Mapping[str, object]) -> None:
        dtype = element_type(param, self.dtypes)
        if name in params:
            value = params[name]
            if isinstance(value, int):
                self.names[name] = self.terms.number(int(value))
        elif not (dtype.is_integer or dtype.name == "bool"):
            return
        elif param.expr is not None:
            self.names[name] = self._value(param.expr.text, name)
        elif param.values and all(isinstance(v, int) for v in param.values):
            self.names[name] = self._chosen(name, [int(v) for v in param.values])

    def _named(self, name: str, value: Poly) -> Poly:
        """A derived dim. A sum is a variable, so that a row of ``2 * pairs + rest`` elements is one factor in an
        address."""
        if len(value.terms) < 2:
            return value
        found = self.terms.var(name, value.bounds, UNIFORM)
        self.prover.add(self.terms.compare("eq", found, value))
        return found

    def _value(self, text: str, name: str) -> Poly:
        """The value of an expression; a separate variable if it has no term."""
        try:
            return self.value(parse(text))
        except NoTerm:
            return self.terms.var(f"{name} = {text}", (None, None), UNIFORM)

    def _assume(self, text: str) -> None:
        try:
            self.prover.add(self.condition(parse(text)))
        except NoTerm:
            return  # what is not assumed is not used

    def bits(self) -> Bits:
        """Arithmetic that may use all assumptions."""
        return Bits(self.terms, self.prover, self.terms.true, asks=True)

    def expression(self, text: str) -> Poly | None:
        """The value of an expression of the spec; None if it has no term."""
        try:
            return self.value(parse(text))
        except NoTerm:
            return None

    def value(self, node: Node) -> Poly:
        """An expression as a term.

        Raises:
            NoTerm: it is not one of integers.
        """
        terms = self.terms
        match node:
            case Number(value=int(value)):
                return terms.number(value)
            case Name(name=name) if name in self.names:
                return self.names[name]
            case Name(name=name) if name.startswith("sizeof("):
                inner = name[len("sizeof(") : -1]
                return terms.number(DTYPES[self.dtypes.get(inner, inner)].itemsize)
            case Unary(operator="-" | "+" as sign, operand=operand):
                return terms.scaled(self.value(operand), -1 if sign == "-" else 1)
            case Binary(operator=operator, left=left, right=right):
                return self.binary(operator, self.value(left), self.value(right))
            case FunctionCall(function=function, arguments=arguments):
                return self._call(function, arguments)
        raise NoTerm

    def binary(self, operator: str, a: Poly, b: Poly) -> Poly:
        terms = self.terms
        if operator == "+":
            return terms.sum(a, b)
        if operator == "-":
            return terms.minus(a, b)
        if operator == "*":
            return terms.product(a, b)
        if operator in ("//", "%"):
            constant = b.constant
            if constant is not None and constant > 0:
                return terms.div(a, constant) if operator == "//" else terms.mod(a, constant)
            if self.prover.within(terms.true, a, 0, _FAR) and self.prover.within(terms.true, b, 1, _FAR):
                b64 = self.bits()
                return b64.quotient(a, b, True, 64) if operator == "//" else b64.remainder(a, b, True, 64)
        if operator == "**" and a.constant is not None and b.constant is not None and 0 <= b.constant < 64:
            return terms.number(a.constant**b.constant)
        raise NoTerm

    def _call(self, function: str, arguments: Sequence[Node]) -> Poly:
        terms = self.terms
        if function == "sizeof":
            (inner,) = arguments
            assert isinstance(inner, Name)
            return terms.number(DTYPES[self.dtypes.get(inner.name, inner.name)].itemsize)
        given = [self.value(a) for a in arguments]
        if function in ("min", "max"):
            found = given[0]
            for other in given[1:]:
                found = terms.least(found, other) if function == "min" else terms.most(found, other)
            return found
        if function == "ceildiv":
            a, b = given
            return self.binary("//", terms.sum(a, b, terms.number(-1)), b)
        if function == "abs":
            return terms.most(given[0], terms.scaled(given[0], -1))
        if function == "next_pow2":
            return self._power(given[0])
        raise NoTerm

    def _power(self, a: Poly) -> Poly:
        terms = self.terms
        low, high = a.bounds
        if low is None or high is None or high > 1 << 40:
            raise NoTerm
        powers = [1 << n for n in range(max(low - 1, 0).bit_length(), max(high - 1, 0).bit_length() + 1)]
        found = terms.function("next_pow2", (a,), (powers[0], powers[-1]))
        atom = next(found.atoms())
        rules = [
            terms.all(
                (
                    terms.compare("eq", found, terms.number(p)),
                    terms.compare("le", a, terms.number(p)),
                    terms.compare("gt", terms.scaled(a, 2), terms.number(p)) if p > 1 else terms.true,
                )
            )
            for p in powers
        ]
        self.prover.add(terms.any(rules), (atom,))
        return found

    def condition(self, node: Node) -> Formula:
        """A constraint as a condition.

        Raises:
            NoTerm: a part of it has no term.
        """
        terms = self.terms
        match node:
            case Relation(operators=operators, operands=operands):
                names = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
                values = [self.value(operand) for operand in operands]
                return terms.all(
                    terms.compare(names[o], a, b) for o, a, b in zip(operators, values, values[1:], strict=False)
                )
            case Logical(operator=operator, left=left, right=right):
                parts = (self.condition(left), self.condition(right))
                return terms.all(parts) if operator == "and" else terms.any(parts)
            case Unary(operator="not", operand=operand):
                return terms.negated(self.condition(operand))
        raise NoTerm

    def shape(self, array: Input | Output) -> tuple[Poly, ...]:
        """The extents of an array; a variable that is not negative for one without a term."""
        found = []
        for axis, extent in enumerate(array.shape):
            value = self.expression(extent.text)
            found.append(self.terms.var(f"{array.name}[{axis}]", (0, _FAR), UNIFORM) if value is None else value)
        return tuple(found)

    def contents(self, array: Input) -> Contents | None:
        """What the distributions of an integer array say about its elements; None: nothing."""
        dtype = element_type(array, self.dtypes)
        if not (dtype.is_integer or dtype.name == "bool"):
            return None
        if dtype.name == "bool":
            return Contents(((self.terms.true, self.terms.zero, self.terms.one),))
        if not array.values:
            return None
        found = [(self.terms.true, self._drawn(d, array)) for d in array.values]
        for example in self.spec.examples:
            if array.name in example.values:
                found.append((self._sizes(example), self._drawn(example.values[array.name], array)))
        least, most = type_range(dtype.name.startswith("int"), 8 * dtype.itemsize)
        ranges: list[tuple[Formula, Poly, Poly]] = []
        ascends = differs = True
        for condition, one in found:
            if one is None:
                return None
            for _, low, high in one.ranges:
                bits = self.bits().under(condition)
                if not (bits.within(low, least, most) and bits.within(high, least, most)):
                    return None
                ranges.append((condition, low, high))
            ascends, differs = ascends and one.ascends, differs and one.differs
        return Contents(tuple(ranges), ascends, differs)

    def _sizes(self, example: Example) -> Formula:
        """That a case has the sizes of an example."""
        terms = self.terms
        return terms.all(
            terms.compare("eq", self.names[name], terms.number(size))
            for name, size in example.dims.items()
            if name in self.names
        )

    def _drawn(self, distribution: Distribution, array: Input) -> Contents | None:
        terms, argument = self.terms, distribution.argument
        match distribution.name:
            case "integers" if isinstance(argument, tuple) and len(argument) == 2:
                low, high = (self.expression(str(part)) for part in argument)
                return None if low is None or high is None else self._between(low, high)
            case "offsets":
                total = self.expression(str(argument))
                return None if total is None else self._between(terms.zero, total, ascends=len(array.shape) == 1)
            case "permutation":
                shape = self.shape(array)
                if len(shape) != 1:
                    return None
                return self._between(terms.zero, terms.minus(shape[0], terms.one), differs=True)
            case "zeros":
                return self._between(terms.zero, terms.zero)
            case "ones":
                return self._between(terms.one, terms.one)
            case "bernoulli" | "one_hot":
                return self._between(terms.zero, terms.one)
            case "constant" if isinstance(argument, int):
                return self._between(terms.number(argument), terms.number(argument))
            case "choice" if isinstance(argument, tuple) and all(isinstance(a, int) for a in argument):
                return self._between(terms.number(min(argument)), terms.number(max(argument)))
            case "sorted" if isinstance(argument, Distribution):
                inner = self._drawn(argument, array)
                return None if inner is None else Contents(inner.ranges, ascends=len(array.shape) == 1)
        return None

    def _between(self, low: Poly, high: Poly, *, ascends: bool = False, differs: bool = False) -> Contents:
        return Contents(((self.terms.true, low, high),), ascends, differs)


@dataclass(frozen=True, eq=False, slots=True)
class Contents:
    """What is known about the elements of an index array.

    Attributes:
        ranges: in each case, the elements are in one of them: (condition under which a case may have it, least,
            greatest).
        ascends: whether a later element is at least as large.
        differs: whether different elements differ.
    """

    ranges: tuple[tuple[Formula, Poly, Poly], ...]
    ascends: bool = False
    differs: bool = False


def told(spec: OpSpec) -> tuple[str, ...]:
    """The assumptions in words, one line each."""
    rows = []
    for name, dim in spec.dims.items():
        domain = dim.domain
        if isinstance(domain, Range):
            rows.append(f"{name}: {domain.low:,} to {domain.high:,}")
        elif isinstance(domain, Choices):
            rows.append(f"{name}: {', '.join(map(str, domain.values))}")
        else:
            rows.append(f"{name} = {domain.text}")
    rows += [constraint.text for constraint in spec.constraints]
    for name, param in spec.params.items():
        rows.append(
            f"{name} = {param.expr.text}" if param.expr else f"{name}: {', '.join(map(str, param.values))}"
        )
    if spec.launch is not None:
        rows.append(f"grid: {', '.join(e.text for e in spec.launch.grid)}")
        rows.append(f"block: {', '.join(e.text for e in spec.launch.block)}")
    if spec.launcher is not None:
        rows.append(f"launches: those in the code of {spec.launcher.name}")
    for name, array in spec.inputs.items():
        dtypes = spec.dtypes[array.dtype].choices if array.dtype in spec.dtypes else (array.dtype,)
        if array.values and all(DTYPES[d].is_integer for d in dtypes):
            rows.append(f"{name}: {', '.join(str(d) for d in array.values)}")
    return tuple(rows)
