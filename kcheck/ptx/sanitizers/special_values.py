"""Records which operations make a NaN of numbers, or an infinity of finite numbers.

It is used if an output has a NaN or an infinity that the reference does not have. It reports no errors, because
many correct kernels compute with infinities.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from kcheck.ptx.abi import FaultKind, SiteCache, Worker
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.ir.builder import FLOATS, Value
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.records import record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.isa.events import Observer
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.runtime.faults import report_fault
from kcheck.ptx.sanitizers.origins import rarely
from kcheck.ptx.syntax.ast import Instruction, Operand, Operation
from kcheck.ptx.syntax.types import TYPES

_REPORTS = 8
"""The maximum number of reports for one site and worker, so that a loop does not fill the buffer."""

OPERATIONS = frozenset(
    ("add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "cvt")
)
"""The instructions that can make a special value of others."""

REPORT_PARAMETERS = {
    "launch": "ptr",
    "worker": "ptr",
    "block": "ptr",
    "t0": "i32",
    "site": "i32",
    "kind": "i32",
    "lane": "i32",
    "operands": "i64",
    "third": "i32",
}
"""Those of a function that reports an operation with its operands."""

_MADE = Signature("@kcheck.made", "void", REPORT_PARAMETERS)


class ValueObserver(Observer):
    """Watches the floating-point results of one function."""

    def __init__(self, fn: FunctionLowering) -> None:
        self.fn = fn
        self._pending: tuple[Instruction, list[Value]] | None = None

    def computes(
        self, i: Instruction, operands: Sequence[Operand], values: Sequence[Value], targets: Sequence[Operand]
    ) -> None:
        """Keep the operands of an operation until its result is known."""
        floats = [value for value in values if value.is_float and not value.text.startswith("undef")]
        self._pending = (i, floats) if i.opcode in OPERATIONS and floats else None

    def written(self, operation: Operation, register: str, value: Value, blend: bool) -> None:
        """Compare the result with the operands."""
        pending, self._pending = self._pending, None
        if pending is None or pending[0] is not operation:
            return
        i, operands = pending
        kind = TYPES.get(i.modifiers[-2 if i.opcode == "cvt" else -1])
        if kind is None or kind.llvm not in FLOATS or kind.bits != value.bits:
            return
        b, infinity = self.fn.b, float("inf")
        result = b.bitcast(value, kind.llvm)
        magnitudes = [b.intrinsic("fabs", operand) for operand in operands]
        numbers, finite = (
            self._all(b.compare(condition, each, infinity) for each in magnitudes) for condition in ("ole", "olt")
        )
        nan = b.land(b.splat(b.compare("uno", result, result)), numbers)
        overflow = b.land(b.splat(b.compare("oeq", b.intrinsic("fabs", result), infinity)), finite)
        for fault, made in ((FaultKind.MADE_NAN, nan), (FaultKind.MADE_INFINITY, overflow)):
            lanes = b.land(made, b.splat(self.fn.active))
            rarely(self.fn, b.any(lanes), partial(self._report, i, fault, lanes, operands))

    def _all(self, conditions: Iterable[Value]) -> Value:
        b = self.fn.b
        found = b.splat(b.const("i1", 1))
        for condition in conditions:
            found = b.land(found, b.splat(condition))
        return found

    def _report(self, i: Instruction, kind: FaultKind, lanes: Value, operands: Sequence[Value]) -> None:
        b, fn = self.fn.b, self.fn
        if _MADE.name not in fn.unit.definitions:
            fn.unit.definitions[_MADE.name] = _made_ir(fn.unit.declarations)
        lane = b.const("i32", 0)
        if fn.width > 1:
            lane = b.resize(b.flagged_intrinsic("cttz", b.mask_bits(lanes), False), "i32")
        bits = [self._bits(b.extract(b.splat(operand), lane)) for operand in operands[:3]]
        bits += [b.const("i32", 0)] * (3 - len(bits))
        first, second = (b.resize(part, "i64") for part in bits[:2])
        where = {name: Value(f"%{name}", element) for name, element in list(_MADE.parameters.items())[:4]}
        call(
            b,
            _MADE,
            **where,
            site=fn.unit.site(i, "value"),
            kind=int(kind),
            lane=lane,
            operands=b.lor(first, b.shift("shl", second, 32)),
            third=bits[2],
        )

    def _bits(self, operand: Value) -> Value:
        """A scalar as the bits of a float32."""
        b = self.fn.b
        name = "fptrunc" if operand.type == "double" else "fpext"
        return b.as_integer(b.cast(name, operand, "float"))


class SpecialValues(Sanitizer):
    """Records the origins of NaN and infinity in one kernel."""

    def observe(self, fn: FunctionLowering, cfg: Cfg) -> Observer:
        """Watch every function."""
        return ValueObserver(fn)


def _made_ir(declarations: dict[str, str]) -> Definition:
    f = FunctionBuilder(_MADE, "noinline", declarations=declarations, attributes="cold")
    cache = record(f, "worker", Worker).records(Worker.sites, SiteCache)[f.argument("site")]
    reports = cache.load(SiteCache.base)  # this site has no access, so the field counts its reports
    cache.store(SiteCache.base, reports + 1)
    with f.if_(reports >= _REPORTS):
        f.ret()
    report_operation(f)
    return f.definition()


def report_operation(f: FunctionBuilder) -> None:
    """Report the operation in the arguments of a function with REPORT_PARAMETERS."""
    report_fault(
        f,
        f.argument("kind"),
        f.argument("site"),
        address=f.argument("operands"),
        size=f.argument("third"),
        lane=f.argument("lane"),
    )
