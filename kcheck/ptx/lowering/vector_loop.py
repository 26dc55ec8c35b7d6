"""The loop around a kernel's function: it runs a block's vectors one after another, from barrier to barrier.

Calling it once for each vector and barrier was a third of the time of a block scan; values that are the same for
all vectors are computed once for all of them. When all vectors of a block are at one plain barrier, they continue
from there in another round, without leaving the function.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.ptx.abi import Launch
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.flow import UNLIKELY, FlowBuilder
from kcheck.ptx.ir.records import field_address
from kcheck.ptx.runtime.layout import SEVERAL, VECTOR_BYTES, lanes_from

_NONE_YET = -3


def loop(
    width: int,
    body: Sequence[str],
    outcomes: Sequence[tuple[str, str]],
    plain: Sequence[int],
    references: set[str],
) -> list[str]:
    """The function's body behind its entry block.

    Args:
        body: the lines for one vector: from its ``%warp``, ``%t0``, ``%mask`` and ``%resume`` to branches to
            ``%over``.
        outcomes: the outcome for its vector from each block that branches there, and the block.
        plain: numbers of the suspension points at which vectors wait for nothing but each other.
        references: of the function; filled here.
    """
    b = FlowBuilder(width, prefix="next", references=references)
    bits, i32 = f"i{width}", "i32"
    end, before = Value("%end", i32), Value("%sofar", i32)
    b.label("over")
    code = b.phi(i32, outcomes)
    outcome = code
    if {text for text, _ in outcomes} != {"0"}:  # otherwise no lane waits, and all end
        agrees = b.lor(b.compare("eq", before, _NONE_YET), b.compare("eq", code, before))
        outcome = b.select(agrees, code, b.const(i32, SEVERAL))
    first = b.add(Value("%t0", i32), width)
    b.branch(b.compare("ult", first, end), "onward", "last")
    b.label("onward")
    state = b.value(f"getelementptr i8, ptr %warp, {b.typed(call(b, VECTOR_BYTES))}", "ptr")
    b.branch(b.compare("ult", b.sub(end, first), width), "part", "vector", UNLIKELY)
    b.label("part")
    lanes = lanes_from(b, first, end, width)
    b.jump("vector")
    b.label("last")
    b.branch(b.compare("eq", end, 0), "back", "met")
    b.label("met")
    b.switch(outcome, "back", [(number + 1, "passed") for number in plain])
    b.label("passed")
    stop = field_address(b, Launch, "%launch", Launch.stop)
    stopped = b.compare("ne", b.value(f"load atomic i32, ptr {stop.text} monotonic, align 4", i32), 0)
    b.branch(stopped, "back", "again")
    b.label("again")
    b.jump("pass")
    b.label("back")
    b.leave(outcome)

    head = FlowBuilder(width)
    head.jump("pass")
    head.label("pass")
    head.phi(i32, [("%stop", "entry"), (outcome.text, "again")], "%resume")
    head.jump("vector")
    head.label("vector")
    head.phi("ptr", [("%state", "pass"), (state.text, "onward"), (state.text, "part")], "%warp")
    head.phi(i32, [("%first", "pass"), (first.text, "onward"), (first.text, "part")], "%t0")
    head.phi(bits, [("%lanes", "pass"), ("-1", "onward"), (lanes.text, "part")], "%mask")
    head.phi(i32, [(str(_NONE_YET), "pass"), (outcome.text, "onward"), (outcome.text, "part")], "%sofar")
    return [*head.lines, *body, *b.lines]
