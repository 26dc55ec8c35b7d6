"""The loop around a kernel's function: it runs a block's vectors one after another, from barrier to barrier.

Calling it once for each vector and barrier was a third of the time of a block scan; values that are the same for
all vectors are computed once for all of them. When all vectors of a block wait at the same plain barrier, the loop
starts again and they continue from there, without leaving the function.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import Launch
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.flow import UNLIKELY, FlowBuilder
from kcheck.ptx.ir.records import field_address
from kcheck.ptx.runtime.layout import DONE, INTERIOR, SEVERAL, VECTOR_BYTES, lanes_from

_NONE_YET = -3


@dataclass(frozen=True, slots=True)
class Carried:
    """A register that is the same for all vectors of a block.

    Attributes:
        before: an alloca with its value when a pass over the block begins.
        after: an alloca with its value after the last barrier that a vector reached.
        kind: its LLVM type.
        offset: of its place in the state of a vector, while the function does not run.
    """

    before: str
    after: str
    kind: str
    offset: int


@dataclass(frozen=True, slots=True)
class Passes:
    """How the vectors of a block pass values to the next pass, if they all meet at each barrier.

    Attributes:
        carried: the registers.
        busy: an alloca of i1: whether the vectors after the current one may have something to do.
    """

    carried: Sequence[Carried]
    busy: str


def loop(
    width: int,
    body: Sequence[str],
    outcomes: Sequence[tuple[str, str]],
    plain: Sequence[int],
    references: set[str],
    has_interior: bool = False,
    passes: Passes | None = None,
) -> list[str]:
    """The function's body after its entry block.

    Args:
        body: the lines for one vector: they use its ``%warp``, ``%t0``, ``%mask`` and ``%resume``, and branch to
            ``%over`` at the end.
        outcomes: for each LLVM block that branches there: the outcome for the vector, and the block.
        plain: numbers of the suspension points at which vectors wait only for each other.
        references: the names that the function refers to; extended here.
        has_interior: whether INTERIOR runs first. In such a kernel no vector waits.
        passes: for a kernel whose vectors all meet at each barrier.
    """
    b = FlowBuilder(width, prefix="next", references=references)
    bits, i32 = f"i{width}", "i32"
    end, before = Value("%end", i32), Value("%sofar", i32)
    b.label("over")
    code = b.phi(i32, outcomes)
    outcome = code
    if passes is None and {text for text, _ in outcomes} != {"0"}:  # otherwise no vector waits elsewhere
        agrees = b.lor(b.compare("eq", before, _NONE_YET), b.compare("eq", code, before))
        outcome = b.select(agrees, code, b.const(i32, SEVERAL))
    first = b.add(Value("%t0", i32), width)
    more = b.compare("ult", first, end)
    if passes is not None:
        more = b.land(more, b.value(f"load i1, ptr {passes.busy}", "i1"))
    b.branch(more, "onward", "last")
    b.label("onward")
    state = b.value(f"getelementptr i8, ptr %warp, {b.typed(call(b, VECTOR_BYTES))}", "ptr")
    b.branch(b.compare("ult", b.sub(end, first), width), "part", "vector", UNLIKELY)
    b.label("part")
    lanes = lanes_from(b, first, end, width)
    b.jump("vector")
    carried = () if passes is None else passes.carried
    _after_pass(b, outcome, plain, carried)

    head = FlowBuilder(width, prefix="begun", references=references)
    for register in carried:
        _copy(head, register.kind, _in_state(head, register), register.before)
    begins = [("entry", {name: f"%{name}" for name in _BEGIN})]
    if has_interior:
        begins.append(("rest", _interior_first(head, width)))
    head.jump("pass")
    head.label("pass")
    head.phi(i32, [*(("%stop", label) for label, _ in begins), (outcome.text, "again")], "%resume")
    kinds = dict(zip(_BEGIN, ("ptr", i32, bits), strict=True))
    for name, kind in kinds.items():
        head.phi(kind, [*((at[name], label) for label, at in begins), (f"%{name}", "again")], f"%{name}.begin")
    head.jump("vector")
    head.label("vector")
    after = {"state": state, "first": first, "lanes": lanes}
    for name, here in zip(_BEGIN, ("%warp", "%t0", "%mask"), strict=True):
        onward = "-1" if name == "lanes" else after[name].text
        head.phi(kinds[name], [(f"%{name}.begin", "pass"), (onward, "onward"), (after[name].text, "part")], here)
    head.phi(i32, [(str(_NONE_YET), "pass"), (outcome.text, "onward"), (outcome.text, "part")], "%sofar")
    return [*head.lines, *body, *b.lines]


def _after_pass(b: FlowBuilder, outcome: Value, plain: Sequence[int], carried: Sequence[Carried]) -> None:
    """The code at ``last``, where all vectors had their turn: begin again at a plain barrier, or return."""
    b.label("last")
    b.branch(b.compare("eq", Value("%end", "i32"), 0), "back", "met")
    b.label("met")
    b.switch(outcome, "back", [(number + 1, "passed") for number in plain])
    b.label("passed")
    stop = field_address(b, Launch, "%launch", Launch.stop)
    stopped = b.compare("ne", b.value(f"load atomic i32, ptr {stop.text} monotonic, align 4", "i32"), 0)
    b.branch(stopped, "back", "again")
    b.label("again")
    for register in carried:
        _copy(b, register.kind, register.after, register.before)
    b.jump("pass")
    b.label("back")
    for register in carried:
        _copy(b, register.kind, register.after, _in_state(b, register))
    b.leave(outcome)


def _copy(b: FlowBuilder, kind: str, source: str, target: str) -> None:
    value = b.value(f"load {kind}, ptr {source}", kind)
    b.line(f"store {b.typed(value)}, ptr {target}")


def _in_state(b: FlowBuilder, register: Carried) -> str:
    """The address of a register in the state of the first vector."""
    return b.value(f"getelementptr i8, ptr %state, i64 {register.offset}", "ptr").text


_BEGIN = ("state", "first", "lanes")
"""The parameters for the first vector: its state, its first thread and its lanes."""


def _interior_first(b: FlowBuilder, width: int) -> dict[str, str]:
    """If the whole block begins, run INTERIOR, which runs some or all whole vectors, or none; continue with the
    others at ``rest``.

    Returns:
        The values of ``_BEGIN`` at ``rest``.
    """
    end = Value("%end", "i32")
    begins = b.land(b.compare("eq", Value("%stop", "i32"), 0), b.compare("eq", Value("%first", "i32"), 0))
    b.branch(b.land(begins, b.compare("ne", end, 0)), "try", "pass")
    b.label("try")
    given = {name: Value(f"%{name}", kind) for name, kind in INTERIOR.parameters.items() if name != "count"}
    done = call(b, INTERIOR, **given, count=1)
    b.branch(b.compare("eq", done, end), "ended", "rest")
    b.label("ended")
    b.leave(b.const("i32", DONE))
    b.label("rest")
    vectors = b.resize(b.shift("lshr", done, width.bit_length() - 1), "i64")
    offset = b.mul(vectors, call(b, VECTOR_BYTES))
    state = b.value(f"getelementptr i8, ptr %state, {b.typed(offset)}", "ptr")
    return {"state": state.text, "first": done.text, "lanes": lanes_from(b, done, end, width).text}


@dataclass(frozen=True, slots=True)
class StripRows:
    """The rows of a strip.

    Attributes:
        lines: for each row. They use ``%from``, the number of its first thread.
        runs: whether a row runs, i1; None: all do.
        limits: the first position in a row that runs, and the one after the last, i64; None: all run.
    """

    lines: Sequence[str]
    runs: Value | None = None
    limits: tuple[Value, Value] | None = None


@dataclass(frozen=True, slots=True)
class VectorCode:
    """The lines for one vector. They use its ``%warp``, ``%t0`` and ``%place`` in the row.

    Attributes:
        begin: those at the beginning.
        whole: the others. They branch to ``%over`` at the end.
        part: the same for a vector that lacks lanes; those that it has are ``%edge``. None: no vector does.
    """

    begin: Sequence[str]
    whole: Sequence[str]
    part: Sequence[str] | None = None


def interior_loop(
    width: int,
    test: Sequence[str],
    found: tuple[Value, Value],
    rows: StripRows,
    vector: VectorCode,
    references: set[str],
) -> list[str]:
    """The body of INTERIOR after its entry block. It runs each row through all blocks, because of the caches.

    Args:
        test: the lines that compute ``found``.
        found: whether these are interior blocks, i1, and the number of threads in a row of a block, i32: all
            threads of the block, or a multiple of the width.
        references: the names that the function refers to; extended here.
    """
    head, b, i32 = (
        FlowBuilder(width, prefix="test", references=references),
        FlowBuilder(width, prefix="next"),
        "i32",
    )
    is_interior, threads = found
    end, count = Value("%end", i32), Value("%count", i32)
    is_one = head.compare("eq", count, 1)
    fits = head.compare("eq", head.land(threads, width - 1), 0)
    length = head.mul(head.land(threads, -width), count)
    some = head.land(head.compare("ne", length, 0), head.lor(is_one, fits))
    head.branch(head.land(is_interior, some), "interior", "border")
    head.label("border")
    head.leave(head.const(i32, 0))
    head.label("interior")
    first, stop = head.const(i32, 0), length
    if rows.limits is not None:
        low, after = (head.resize(limit, i32) for limit in rows.limits)
        first, stop = head.land(low, -width), head.select(head.compare("slt", after, length), after, length)
        head.branch(head.compare("slt", low, stop), "row", "last")
    else:
        head.jump("row")
    b.label("over")
    place = b.add(Value("%place", i32), width)
    b.branch(b.compare("slt", place, stop), "vector", "ended")
    b.label("ended")
    begin = b.add(Value("%from", i32), threads)
    b.branch(b.compare("ult", begin, end), "row", "last")
    b.label("last")
    b.leave(b.land(end, -width))
    head.label("row")
    head.phi(i32, [("0", "interior"), (begin.text, "ended")], "%from")
    head.lines.extend(rows.lines)
    if rows.runs is None:
        head.jump("begins")
    else:
        head.branch(rows.runs, "begins", "ended")
    head.label("begins")
    head.jump("vector")
    head.label("vector")
    head.phi(i32, [(first.text, "begins"), (place.text, "over")], "%place")
    head.line("%t0 = add i32 %from, %place")
    number = head.shift("lshr", Value("%t0", i32), width.bit_length() - 1)
    offset = head.mul(head.resize(number, "i64"), call(head, VECTOR_BYTES))
    head.line(f"%warp = getelementptr i8, ptr %state, {head.typed(offset)}")
    head.lines.extend(vector.begin)
    if rows.limits is None or vector.part is None:
        return [*test, *head.lines, *vector.whole, *b.lines]
    here = Value("%place", i32)
    lacks_first, lacks_last = (head.compare("sgt", x, y) for x, y in ((low, here), (head.add(here, width), stop)))
    head.branch(head.lor(lacks_first, lacks_last), "part", "whole", UNLIKELY)
    edge, whole = (FlowBuilder(width, prefix=name, references=references) for name in ("edge", "whole"))
    edge.label("part")
    _mask_of_edge(edge, edge.sub(low, here), edge.sub(edge.add(here, width), stop))
    whole.label("whole")
    return [*test, *head.lines, *edge.lines, *vector.part, *whole.lines, *vector.whole, *b.lines]


def _mask_of_edge(b: FlowBuilder, before: Value, behind: Value) -> None:
    """Define ``%edge``: the lanes except the first ``before`` and the last ``behind``: i32, less than the width.
    Negative numbers count as 0."""
    bits = f"i{b.width}"
    ones, zero = b.const(bits, -1), b.const("i32", 0)
    first, last = (
        b.resize(b.select(b.compare("sgt", missing, 0), missing, zero), bits) for missing in (before, behind)
    )
    lanes = b.land(b.op("shl", ones, first), b.op("lshr", ones, last))
    b.line(f"%edge = or {b.typed(lanes)}, 0")
