"""Rounds floating-point results at random, and records operations that lose the digits of rounded operands.

It is used if an output is beyond its tolerance. Results that vary as much as the error show that rounding
explains it: random rounding stands for any order of evaluation (Parker, "Monte Carlo Arithmetic", 1997; Verrou
does the same). Only the results of single instructions of at most 32 bits are changed, and only where they are not
exact, unless the host asks for more noise in one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kcheck.ptx.abi import Block, FaultKind, Launch, SiteCache, Worker
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.liveness import writes
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.records import record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.isa.events import Observer
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.sanitizers.origins import rarely
from kcheck.ptx.sanitizers.rounded_values import RoundedValues
from kcheck.ptx.sanitizers.special_values import OPERATIONS, REPORT_PARAMETERS, report_operation
from kcheck.ptx.syntax.ast import Instruction, Operand, Operation
from kcheck.ptx.syntax.opcodes import SUMS
from kcheck.ptx.syntax.types import TYPES

PRECISION = {"half": 11, "bfloat": 8, "float": 24}
"""Bits of the significand, by LLVM's type."""
_SKIPPED = frozenset(("sat", "relu"))
"""Modifiers of instructions whose result is not only rounded."""
_LOST = Signature("@kcheck.lost", "void", {**REPORT_PARAMETERS, "kept": "i32"})
_COUNT = "%noise.count"
"""A register that counts the operations of a thread since its last barrier."""
_MASK = 0x7FFFFFFF
_CANCELLED = 3
"""Bits that a difference loses at least to be reported: the reader compares all that may matter."""


class NoiseObserver(Observer):
    """Changes the floating-point results of one function, and reports sums that lose digits.

    Args:
        rounded: which registers may have rounding errors.
    """

    def __init__(self, fn: FunctionLowering, rounded: RoundedValues) -> None:
        self.fn = fn
        self._rounded = rounded
        self._pending: tuple[Instruction, list[Value], bool] | None = None

    def computes(
        self, i: Instruction, operands: Sequence[Operand], values: Sequence[Value], targets: Sequence[Operand]
    ) -> None:
        """Keep the operands of an operation until its result is known."""
        floats = [value for value in values if value.is_float and not value.text.startswith("undef")]
        is_watched = i.opcode in OPERATIONS and floats and not _SKIPPED & {*i.modifiers}
        self._pending = (i, floats, any(map(self._rounded.has, operands))) if is_watched else None

    def written(self, operation: Operation, register: str, value: Value, blend: bool) -> None:
        """Add noise to the result."""
        pending, self._pending = self._pending, None
        if pending is None or pending[0] is not operation:
            return
        i, operands, has_errors = pending
        kind = TYPES.get(i.modifiers[-2 if i.opcode == "cvt" else -1])
        if kind is None or kind.llvm not in PRECISION or kind.bits != value.bits:
            return
        b = self.fn.b
        result = b.bitcast(value, kind.llvm)
        exact, terms = self._exact(i.opcode, [b.cast("fpext", each, "double") for each in operands], result)
        site = self.fn.unit.site(i, "noise")
        largest, cancels = terms[0], b.const("i1", 0)
        if len(terms) == 2:
            largest = b.intrinsic("maxnum", *terms)
            held, smallest = b.cast("fpext", result, "double"), b.intrinsic("minnum", *terms)
            if has_errors:
                size = b.intrinsic("fabs", held)
                cancels = self._is_small(size, largest, _CANCELLED)
                self._report_small(i, FaultKind.LOST_DIGITS, size, largest, b.const("i1", 1), operands)
            absorbed = b.land(b.compare("une", held, exact), b.compare("ogt", smallest, 0.0))
            self._report_small(i, FaultKind.ABSORBED_DIGITS, smallest, largest, absorbed, operands)
        changed = self._changed(site, result, exact, largest, cancels)
        declared = TYPES[next(target.type for target in writes(i) if target.name == register)]
        self.fn.store(register, declared.name, b.bitcast(changed, declared.llvm), blend)

    def _exact(self, opcode: str, operands: Sequence[Value], result: Value) -> tuple[Value, list[Value]]:
        """The result before it is rounded, if that is known; and the magnitudes of the terms of a sum, or that of
        the result."""
        b = self.fn.b
        magnitude = partial(b.intrinsic, "fabs")
        if opcode in SUMS:
            return b.op(f"f{opcode}", *operands), [magnitude(each) for each in operands]
        if opcode in ("fma", "mad"):
            product = b.op("fmul", operands[0], operands[1])
            return b.op("fadd", product, operands[2]), [magnitude(product), magnitude(operands[2])]
        if opcode == "mul":
            exact = b.op("fmul", *operands)
        elif opcode == "cvt":
            exact = operands[0]
        else:
            exact = b.cast("fpext", result, "double")
        return exact, [magnitude(exact)]

    def _changed(self, site: int, result: Value, exact: Value, largest: Value, cancels: Value) -> Value:
        """The result, rounded at random where that is requested; with more noise, only where terms cancel."""
        fn, b = self.fn, self.fn.b
        line = fn.unit.sites[site].source_line
        asked, amplitude = fn.field(Launch, Launch.noise_line), fn.field(Launch, Launch.noise, element="double")
        is_asked = b.lor(b.compare("eq", asked, 0), b.compare("eq", asked, line))
        more = b.compare("ogt", amplitude, 1.0)
        held = b.cast("fpext", result, "double")
        inexact = b.compare("une", held, exact) if exact.text != held.text else b.const("i1", 1)
        size = b.op("fmul", largest, b.const("double", 2.0 ** -PRECISION[result.type]))
        noise = b.op("fmul", b.op("fmul", size, amplitude), self._random(site, result))
        noisy = b.op("fadd", exact, noise)
        finite = b.compare("olt", b.intrinsic("fabs", noisy), float("inf"))
        chosen = b.land(b.land(b.select(more, cancels, inexact), is_asked), finite)
        chosen = b.land(chosen, b.compare("ogt", amplitude, 0.0))
        return b.select(chosen, b.cast("fptrunc", noisy, result.type), result)

    def _random(self, site: int, result: Value) -> Value:
        """A number of [-1, 1) for each lane, which does not depend on the order in which blocks run."""
        fn, b = self.fn, self.fn.b
        count = fn.load(_COUNT, "b32")
        fn.store(_COUNT, "b32", b.add(count, 1), False)
        block = b.resize(fn.field(Block, Block.linear), "i32")
        thread = b.add(b.mul(block, 0x27D4EB2F), Value("%t0", "i32"))
        start = b.add(b.mul(thread, 0x165667B1), b.add(fn.field(Launch, Launch.noise_seed), site * 0x85EBCA77))
        mixed = b.add(b.mul(count, 0x9E3779B1), start)
        if fn.width > 1:
            mixed = b.add(b.splat(mixed), b.lanes_const("i32", [n * 0x42B2AE3D & _MASK for n in range(fn.width)]))
        bits = b.resize(b.as_integer(result), "i32")
        mixed = b.xor(mixed, b.mul(bits, 0x2545F491))
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
            mixed = b.mul(b.xor(mixed, b.shift("lshr", mixed, shift)), factor)
        return b.op("fmul", b.cast("sitofp", mixed, "double"), b.const("double", 2.0**-31))

    def _report_small(
        self,
        i: Instruction,
        kind: FaultKind,
        small: Value,
        large: Value,
        condition: Value,
        operands: Sequence[Value],
    ) -> None:
        """Report a sum or a term that is much smaller than the largest term: digits cancel, or are lost."""
        fn, b = self.fn, self.fn.b
        is_absorbed = kind is FaultKind.ABSORBED_DIGITS
        bits = (PRECISION[operands[0].type] + 1) // 2 if is_absorbed else _CANCELLED
        is_small = self._is_small(small, large, bits)
        lanes = b.land(b.splat(b.land(is_small, condition)), b.splat(fn.active))
        rarely(fn, b.any(lanes), partial(self._report, i, kind, lanes, small, large, operands))

    def _is_small(self, small: Value, large: Value, bits: int) -> Value:
        """Whether a sum or a term has some bits less than the largest term."""
        b = self.fn.b
        return b.compare("olt", small, b.op("fmul", large, b.const("double", 2.0**-bits)))

    def _report(
        self,
        i: Instruction,
        kind: FaultKind,
        lanes: Value,
        small: Value,
        large: Value,
        operands: Sequence[Value],
    ) -> None:
        b, fn = self.fn.b, self.fn
        if _LOST.name not in fn.unit.definitions:
            fn.unit.definitions[_LOST.name] = _lost_ir(fn.unit.declarations)
        lane = b.const("i32", 0)
        if fn.width > 1:
            lane = b.resize(b.flagged_intrinsic("cttz", b.mask_bits(lanes), False), "i32")
        kept = b.op("fdiv", *(b.extract(b.splat(each), lane) for each in (small, large)))
        terms = [b.cast("fpext", b.extract(b.splat(each), lane), "float") for each in operands[:3]]
        bits = [b.as_integer(each) for each in terms]
        bits += [b.const("i32", 0)] * (3 - len(bits))
        first, second = (b.resize(part, "i64") for part in bits[:2])
        where = {name: Value(f"%{name}", element) for name, element in list(_LOST.parameters.items())[:4]}
        call(
            b,
            _LOST,
            **where,
            site=fn.unit.site(i, kind.name),
            kind=int(kind),
            lane=lane,
            operands=b.lor(first, b.shift("shl", second, 32)),
            third=bits[2],
            kept=b.as_integer(b.cast("fptrunc", kept, "float")),
        )


class RandomRounding(Sanitizer):
    """Rounds at random in one kernel."""

    def observe(self, fn: FunctionLowering, cfg: Cfg) -> Observer:
        """Change every function."""
        return NoiseObserver(fn, RoundedValues(cfg))


def _lost_ir(declarations: dict[str, str]) -> Definition:
    """Report an operation if it keeps less of its terms than before on this worker."""
    f = FunctionBuilder(_LOST, "noinline", declarations=declarations, attributes="cold")
    cache = record(f, "worker", Worker).records(Worker.sites, SiteCache)[f.argument("site")]
    kept = f.argument("kept").to("i64") + 1  # positive floats are in the order of their bits; 0: none yet
    least = cache.load(SiteCache.limit)
    with f.if_(least.ne(0) & (kept >= least)):
        f.ret()
    cache.store(SiteCache.limit, kept)
    report_operation(f)
    return f.definition()
