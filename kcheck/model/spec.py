"""An op spec as built from its YAML file: the declarations, each with its place.

Expressions are kept as text (``kcheck.symbolic`` evaluates them) and functions as names in files
(``kcheck.specfile`` loads them), so validating a spec imports no user code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model.baseline import Limit
from kcheck.model.calls import (
    AccessorArg,
    Argument,
    CompileOptions,
    Expression,
    FunctionRef,
    KernelRef,
    LaunchSpec,
    NameArg,
    leaves,
)
from kcheck.model.levels import MILD, Level
from kcheck.span import Span

Scalar: TypeAlias = int | float | bool
FLOAT_DEFAULT = ("normal", "uniform", "adversarial")
"""The distributions of a float array without ``values``."""
INFINITE = ("inf_injected", "empty_rows", "empty_tiles")
"""The distributions that ``allow_inf`` adds to those of a float array."""
SANITIZERS: Mapping[str, Level] = {
    "memcheck": "error",
    "racecheck": "error",
    "initcheck": "error",
    "synccheck": "error",
    "overflow": MILD,
    "unwritten": "error",
    "mutated": "error",
    "nondeterministic": "error",
}
"""Every sanitizer with its default level."""
DEFAULT_CASES = 100
DEFAULT_MEMORY = 256_000_000
DEFAULT_TARGETS = ("sm_80",)
INSTRUMENTED = ("racecheck", "initcheck", "overflow")
"""The sanitizers that need instrumented code, which is compiled separately and runs slower."""
COVERAGE = "coverage"
"""The name, next to those of sanitizers, for instrumented code that only measures coverage."""
VALUES = "values"
"""The same for code that records which operations make a NaN or an infinity."""
STORES = "stores"
"""The same for code that records which stores come nearest to watched bytes."""
GAPS = "gaps"
"""With initcheck: the gaps between the elements of inputs count as uninitialized."""
NOISE = "noise"
"""The same for code that rounds at random, and records which operations lose digits."""
IF_COMPILED = "if compiled"
"""With sanitizers: a launch whose instrumented code is not in the caches runs without it."""


@dataclass(frozen=True, slots=True)
class Framework:
    """The arrays that a ``function:`` gets.

    Attributes:
        name: ``numpy``, ``torch``, ``jax`` or ``tensorflow``; empty: the one that its parameters are annotated
            with, otherwise ``numpy``.
        device: where they are: ``cpu`` or ``cuda``.
    """

    name: str = ""
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Choices:
    """A dim that takes one of these sizes, in elements."""

    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A dim between two sizes, inclusive; ``tiles`` are tile sizes whose multiples are boundaries."""

    low: int
    high: int
    tiles: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Dim:
    """A symbolic size. Its domain is a list, a range, or an expression of other dims (derived)."""

    name: str
    domain: Choices | Range | Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Distribution:
    """A value distribution: its name, and its argument if it has one.

    ``argument`` is as written in the spec: numbers, text (an expression, if bounds may be expressions), a
    list or tuple of these, a nested Distribution (``sorted``), or a Function (``from``). Lists are tuples here.
    """

    name: str
    argument: object = None
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        if self.argument is None:
            return self.name
        argument = self.argument
        if isinstance(argument, tuple):
            return f"{self.name}[{', '.join(str(part) for part in argument)}]"
        return f"{self.name}[{argument}]"


@dataclass(frozen=True, slots=True)
class TypeVariable:
    """A name that stands for one of several dtypes, drawn per case."""

    name: str
    choices: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Input:
    """An array passed to the kernel.

    Attributes:
        shape: one expression per axis, in elements; empty for a 0-d array.
        dtype: a dtype or a type variable, by name.
        values: the distributions to draw from, one per case; empty means the default of its dtype.
        layouts: the layouts to draw from, one per case.
    """

    name: str
    shape: tuple[Expression, ...]
    dtype: str
    values: tuple[Distribution, ...]
    layouts: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Output:
    """An array that the kernel writes: poisoned before the launch or, with ``alias``, the memory of that input."""

    name: str
    shape: tuple[Expression, ...]
    dtype: str
    layouts: tuple[str, ...]
    alias: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class Param:
    """A scalar passed by value: derived (``expr``) or drawn from ``values``.

    Attributes:
        in_order: whether earlier values are simpler, when a case is minimized; otherwise the number itself
            decides.
    """

    name: str
    dtype: str
    expr: Expression | None
    values: tuple[Scalar, ...]
    span: Span
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """An element is accepted when ``abs(actual - expected) <= atol + rtol * abs(expected)``."""

    atol: float
    rtol: float


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How the allowed error is determined: ``conditioned``, ``calibrated``, or written out per dtype (``fixed``).

    Attributes:
        envelopes: for ``calibrated``, by output dtype; empty until the calibration file is read.
        whole: for ``conditioned``: compute the noise floor of every case to measure errors; no verdict changes.
    """

    kind: Literal["conditioned", "calibrated", "fixed"]
    by_dtype: Mapping[str, Bounds]
    span: Span
    envelopes: Mapping[str, float] = field(default_factory=dict)
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Compare:
    """Rules for special values when comparing an output to its reference."""

    nan: Literal["match", "forbid", "ignore"] = "match"
    signed_zero: bool = False


@dataclass(frozen=True, slots=True)
class Invariant:
    """A property of the outputs.

    ``kind`` is ``finite``, ``shape_preserved``, ``non_negative``, ``normalized``, ``symmetric`` or ``expression``.
    ``array`` and ``axis`` belong to the named kinds, ``expression`` to the last.
    """

    kind: Literal["finite", "shape_preserved", "non_negative", "normalized", "symmetric", "expression"]
    span: Span
    array: str | None = None
    axis: int = -1
    expression: Expression | None = None

    def __str__(self) -> str:
        if self.expression is not None:
            return self.expression.text
        return self.kind if self.array is None else f"{self.kind}: {self.array}"


@dataclass(frozen=True, slots=True)
class Artifact:
    """Thresholds on the compiled kernel; None and empty mean not checked. Sizes in bytes."""

    span: Span
    targets: tuple[str, ...] = DEFAULT_TARGETS
    max_registers: int | None = None
    max_spills: int | None = None
    max_local_bytes: int | None = None
    max_shared_bytes: int | None = None
    max_instructions: int | None = None
    required_patterns: tuple[str, ...] = ()
    forbidden_patterns: tuple[str, ...] = ()
    required_sass_patterns: tuple[str, ...] = ()
    forbidden_sass_patterns: tuple[str, ...] = ()

    @property
    def wants_sass(self) -> bool:
        """Whether there are patterns for machine code, which require disassembling the kernel."""
        return bool(self.required_sass_patterns or self.forbidden_sass_patterns)


@dataclass(frozen=True, slots=True)
class Example:
    """A partly specified case: the rest is drawn."""

    span: Span
    dims: Mapping[str, int] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Distribution] = field(default_factory=dict)
    layouts: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpSpec:
    """A whole op spec.

    Attributes:
        path: the path of the spec file, relative to the root if it is below it, with forward slashes.
        root: absolute path of the project root; all other paths are relative to it.
        deterministic: None if the spec does not set it.
        count, seed: those of ``cases``.
        profile_count: the number of cases in the profile, if the spec overrides it; otherwise None.
        sanitize: the level of every sanitizer in SANITIZERS.
        regression: limits set by the spec, by name in MEASURES.
        targets: those of ``artifact``, otherwise those of the project.
        compile: the options in ``compile:``.
        debug_code: whether cases run code that is compiled without optimizations.
        memory: the most bytes that the arrays of an ordinary case take.
        huge: whether a run adds cases whose arrays take more.
        function: the array function of a ``function:``, which replaces kernel and launch.
        framework: the framework of its arrays.
        gradients: the inputs by which the derivatives of the function are checked.
        variables: the values of variables of the kernel's module, by name.
        judged: False if outputs are not compared with a reference (``reference: none``, ``kcheck try``);
            ``reference`` is then what runs the op.
    """

    path: str
    root: str
    op: str
    span: Span
    description: str
    tags: tuple[str, ...]
    dims: Mapping[str, Dim]
    constraints: tuple[Expression, ...]
    dtypes: Mapping[str, TypeVariable]
    compute: str | None
    inputs: Mapping[str, Input]
    params: Mapping[str, Param]
    outputs: Mapping[str, Output]
    kernel: KernelRef | None
    launch: LaunchSpec | None
    launcher: FunctionRef | None
    reference: FunctionRef
    tolerance: Tolerance
    compare: Compare
    invariants: tuple[Invariant, ...]
    sanitize: Mapping[str, Level]
    allow_races: tuple[str, ...]
    mutates: tuple[str, ...]
    deterministic: bool | None
    artifact: Artifact | None
    count: int
    seed: int
    examples: tuple[Example, ...]
    regression: Mapping[str, Limit] = field(default_factory=dict)
    targets: tuple[str, ...] = DEFAULT_TARGETS
    judged: bool = True
    compile: CompileOptions | None = None
    debug_code: bool = False
    memory: int = DEFAULT_MEMORY
    huge: bool = True
    profile_count: int | None = None
    function: FunctionRef | None = None
    framework: Framework = Framework()
    gradients: tuple[str, ...] = ()
    variables: Mapping[str, Argument] = field(default_factory=dict)

    @property
    def runs(self) -> FunctionRef:
        """The function, launcher or kernel that runs the op, for the place of a message."""
        return self.function or self.launcher or self.kernel or self.reference

    def passed_name(self, array: str) -> str:
        """The name under which the kernel gets an array: an input that is replaced in place has that of the output
        if ``args`` passes that one."""
        given = leaves(self.launch.args) if self.launch is not None else ()
        named = (
            one.array if isinstance(one, AccessorArg) else one.name
            for one in given
            if isinstance(one, (AccessorArg, NameArg))
        )
        passed = dict.fromkeys(named)
        if array in passed:
            return array
        return next((name for name in passed if name in self.outputs and self.outputs[name].alias == array), array)

    @property
    def functions(self) -> tuple[FunctionRef, ...]:
        """Every Python function that the spec names, except the kernel: launcher, reference, generators."""
        reference = self.reference if self.judged else None
        named = [f for f in (self.launcher, self.function, reference) if f is not None]
        sources = [d for array in self.inputs.values() for d in array.values]
        sources += [d for example in self.examples for d in example.values.values()]
        return (*named, *(d.argument for d in sources if isinstance(d.argument, FunctionRef)))
