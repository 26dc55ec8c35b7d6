"""The four checks of one kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kcheck.dataclass import dataclass
from kcheck.prover.kernel import Question
from kcheck.prover.model import Meeting, Region, SymbolicAccess, SymbolicBranch
from kcheck.prover.pairs import Renaming, Sharing, sharings
from kcheck.prover.places import SplitOffset, indices, places, shifted, views, with_remainders
from kcheck.prover.terms import THREAD, Atom, Formula, Poly, atoms_below
from kcheck.ptx.analysis.cfg import divided, postdominators
from kcheck.ptx.syntax.ast import Operation


@dataclass(frozen=True, eq=False, slots=True)
class Doubt:
    """Why a check is not proved.

    Attributes:
        reason: in plain words.
        fix: what in the spec would decide it; may be empty.
        values: what the solver proposes, by variable; empty if it proposes nothing.
        operation: where.
        is_of_warp: whether it is about the lanes of a warp, and not about a barrier of the block.
    """

    reason: str
    fix: str
    operation: Operation | None
    values: Mapping[str, int]
    is_of_warp: bool = False


class ProofChecks:
    """The checks of one kernel that was executed with terms.

    Args:
        allowed: the arrays whose races the spec allows.
    """

    def __init__(self, q: Question, allowed: Iterable[str]) -> None:
        self.q = q
        self.terms = q.terms
        self.prover = q.prover
        self._allowed = set(allowed)
        self._found: dict[int, list[SplitOffset]] = {}
        self._indices: dict[tuple[object, ...], tuple[Poly, ...] | None] = {}
        self.converges = False
        """Whether all threads of a block meet at each of its barriers."""
        self.read_outside: set[str] | None = None
        """The arrays that may be read outside, if memcheck looked at all accesses and none may write outside."""
        self.shared_is_ordered = False
        """Whether racecheck found no race in shared memory."""

    def changed_inputs(self) -> Iterator[Doubt]:
        """The writes of inputs that are assumed not to change."""
        for access in self.q.trace.accesses:
            regions = [place.region for place in self._places(access)] if access.kind != "read" else []
            for region in regions:
                if region is not None and region.is_read_only:
                    why = f"writes {region.name}, which the spec does not name as an output"
                    yield Doubt(why, f"add mutates: [{region.name}]", access.operation, {})

    # --- memcheck

    def memcheck(self) -> Iterator[Doubt]:
        """The accesses that may be outside their array, or not aligned."""
        read: set[str] | None = set()
        for access in self.q.trace.accesses:
            for place in self._places(access):
                doubt = self._outside(access, place)
                if doubt is not None:
                    known = access.kind == "read" and place.region is not None and read is not None
                    read = {*(read or ()), place.region.name} if known and place.region is not None else None
                    yield doubt
        self.read_outside = read
        for trap in self.q.trace.traps:
            answer = self.prover.together((trap.path,))
            if answer.kind != "no":
                why = "it may reach a trap, which compilers put where an access is never valid"
                yield Doubt(why, "", trap.operation, answer.values or {"": 0})

    def _places(self, access: SymbolicAccess) -> list[SplitOffset]:
        if id(access) not in self._found:
            self._found[id(access)] = list(places(self.q, access))
        return self._found[id(access)]

    def _outside(self, access: SymbolicAccess, place: SplitOffset) -> Doubt | None:
        region = place.region
        if region is None:
            why, fix = self._unknown_address(place.offset)
            answer = self.prover.together((place.path,))
            return None if answer.kind == "no" else Doubt(why, fix, access.operation, answer.values or {"": 0})
        if region.space == "const" and access.kind != "read":
            return Doubt(f"writes {region.name}, which is constant memory", "", access.operation, {})
        terms = self.terms
        if not self._is_aligned(region, place.offset, access.size):
            return Doubt(
                f"the address may not be a multiple of the {access.size} bytes that are accessed in {region.name}",
                "",
                access.operation,
                {},
            )
        if self.index(region, place, access.size) is not None:
            return None
        if region.is_dense:
            last = terms.minus(region.size, terms.number(access.size))
            low = terms.compare("ge", place.offset, terms.zero)
            high = terms.compare("le", place.offset, last)
            values: Mapping[str, int] = {}
            unclear = False
            for goal in (low, high):
                if goal is terms.true:
                    continue
                answer = self.prover.together((place.path, terms.negated(goal)))
                if answer.kind != "no":
                    values, unclear = answer.values, True
                    break
            if not unclear:
                return None
        else:
            values = self.prover.together((place.path,)).values
        why, fix = self._unknown_index(region, place.offset, access.kind)
        return Doubt(why, fix, access.operation, values)

    def _is_aligned(self, region: Region, offset: Poly, size: int) -> bool:
        if region.align % size:
            return False
        return size == 1 or self.terms.exact_quotient(offset, size) is not None or self._divides(offset, size)

    def _divides(self, offset: Poly, size: int) -> bool:
        rest = self.terms.mod(offset, size)
        return self.prover.holds(self.terms.true, self.terms.compare("eq", rest, self.terms.zero))

    def index(self, region: Region, place: SplitOffset, size: int) -> tuple[Poly, ...] | None:
        """The index along each axis, if each is proved to be within it."""
        key = (region.base, place.offset, place.path, size)
        if key not in self._indices:
            self._indices[key] = self._index(region, place, size)
        return self._indices[key]

    def _index(self, region: Region, place: SplitOffset, size: int) -> tuple[Poly, ...] | None:
        if not region.shape or size % region.itemsize:
            return None
        offsets = dict.fromkeys((place.offset, with_remainders(self.terms, self.prover, place)))
        for view in views(self.terms, region):
            for offset in offsets:
                split = SplitOffset(region, offset, place.path)
                index = self._index_in(view, split, size // region.itemsize)
                if index is not None:
                    return index
        return None

    def _index_in(self, region: Region, place: SplitOffset, wide: int) -> tuple[Poly, ...] | None:
        """The index along each axis of a view.

        Args:
            wide: how many elements are accessed.
        """
        terms = self.terms
        first = indices(terms, region, place.offset)
        if first is None:
            return None
        inner = min(range(len(first)), key=lambda axis: region.strides[axis].constant or 1 << 60)
        if wide > 1 and region.strides[inner].constant != region.itemsize:
            return None
        for index in shifted(terms, region, first):
            for axis, (one, extent) in enumerate(zip(index, region.shape, strict=True)):
                most = terms.minus(extent, terms.number(wide if axis == inner else 1))
                if not self.prover.holds(place.path, terms.compare("ge", one, terms.zero)):
                    break
                if not self.prover.holds(place.path, terms.compare("le", one, most)):
                    break
            else:
                return index
        return None

    def _unknown_address(self, address: Poly) -> tuple[str, str]:
        return "the address is not that of one array: " + self._cause(address)[0], self._cause(address)[1]

    def _unknown_index(self, region: Region, offset: Poly, kind: str) -> tuple[str, str]:
        verb = "reads" if kind == "read" else "writes"
        cause, fix = self._cause(offset)
        return f"{verb} {region.name} at an index that may be outside: {cause}", fix

    def _cause(self, term: Poly | Formula) -> tuple[str, str]:
        """(what makes a term hard, what would decide it)."""
        for atom in atoms_below(term, set()):
            if atom.kind == "load":
                name = str(atom.arguments[0])
                if name not in self.q.loads:
                    return (
                        f"it is loaded from memory: {name}[...]",
                        f"give {name} a distribution, such as values: {{integers: [0, N - 1]}}",
                    )
            if atom.kind == "var" and str(atom.arguments[0]).startswith("value at line"):
                where = str(atom.arguments[0]).partition("#")[0].removeprefix("value ")
                return f"it depends on what is loaded from memory {where}, which the kernel writes or shares", ""
        for atom in atoms_below(term, set()):
            name = str(atom.arguments[0])
            if atom.kind == "read":
                return "it may wrap around in its type", ""
            if atom.kind == "fn":
                return f"{name} of the kernel's numbers is not supported", ""
            if atom.kind == "var" and "#" in name and not name.startswith("iteration"):
                return f"it is computed in a loop ({name.partition('#')[0]}) or by {name.partition('#')[0]}", ""
        return "no bounds were found", ""

    # --- overflow

    def overflow(self) -> Iterator[Doubt]:
        """The 32-bit sums and products that may wrap before an address uses them."""
        for widening in self.q.trace.widenings:
            low, high = (-(1 << 31), (1 << 31) - 1) if widening.signed else (0, (1 << 32) - 1)
            terms = self.terms
            for operator, limit in (("ge", low), ("le", high)):
                goal = terms.compare(operator, widening.value, terms.number(limit))
                answer = self.prover.together((widening.path, terms.negated(goal)))
                if answer.kind != "no":
                    cause, fix = self._cause(widening.value)
                    yield Doubt(f"32-bit arithmetic may wrap: {cause}", fix, widening.operation, answer.values)
                    break

    # --- what the checks depend on

    def depends_on_loads(self, check: str) -> bool:
        """Whether the answer of synccheck or overflow depends on elements of an array that may be read outside, or
        that an access outside another array may change."""
        terms, trace = self.terms, self.q.trace
        if check == "overflow":
            any_value = terms.fresh("any value", (None, None))
            asked = [w.path for w in trace.widenings]
            asked += [terms.compare("eq", w.value, any_value) for w in trace.widenings]
        else:
            after = postdominators(self.q.cfg)
            meets = {meeting.block for meeting in trace.meetings}
            ways = [b for b in trace.branches if not meets.isdisjoint(divided(self.q.cfg, b.block, after))]
            asked = [way.path for way in ways] + [way.condition for way in ways]
        seen: set[object] = set()
        known = self.prover.with_facts(asked)
        loads = (a for condition in known for a in atoms_below(condition, seen) if a.kind == "load")
        return any(self.read_outside is None or a.arguments[0] in self.read_outside for a in loads)

    # --- synccheck

    def synccheck(self) -> list[Doubt]:
        """The barriers that some threads of a block may not reach, and warps whose lanes may not meet."""
        found = list(self._apart())
        self.converges = all(doubt.is_of_warp for doubt in found)
        return found

    def _apart(self) -> Iterator[Doubt]:
        cfg = self.q.cfg
        after = postdominators(cfg)
        at: dict[int, list[Meeting]] = {}
        for meeting in self.q.trace.meetings:
            at.setdefault(meeting.block, []).append(meeting)
            if meeting.problem:
                yield Doubt(meeting.problem, "", meeting.operation, {}, meeting.whole_warp)
        if not at:
            return
        if any(meeting.whole_warp for meeting in self.q.trace.meetings):
            yield from self._partial_warp()
        decided: dict[tuple[int, bool], bool] = {}
        for branch in self.q.trace.branches:
            if branch.condition.level < THREAD and not self._needs_order(branch.condition):
                continue
            reached = divided(self.q.cfg, branch.block, after)
            for meeting in (m for n in reached for m in at.get(n, ())):
                key = (id(branch), meeting.whole_warp)
                if key not in decided:
                    decided[key] = self._same_way(branch, meeting.whole_warp)
                if not decided[key]:
                    what = "lanes of a warp" if meeting.whole_warp else "threads of the block"
                    where = branch.operation.loc
                    line = f" at line {where.line}" if where is not None else ""
                    cause = self._cause(branch.condition)[0] if branch.condition.kind == "cmp" else ""
                    why = f"some {what} may not reach it: the branch{line} may differ between threads"
                    told = why + (f"; {cause}" if "loaded" in cause else "")
                    yield Doubt(told, "", meeting.operation, {}, meeting.whole_warp)

    def _needs_order(self, condition: Formula) -> bool:
        return not self.q.ordered and any(atom.needs_order for atom in atoms_below(condition, set()))

    def _partial_warp(self) -> Iterator[Doubt]:
        x, y, z = self.q.assumptions.block
        terms = self.terms
        whole = terms.product(terms.product(x, y), z)
        if terms.exact_quotient(whole, 32) is not None:
            return
        if self.prover.holds(terms.true, terms.compare("eq", terms.mod(whole, 32), terms.zero)):
            return
        first = next(m for m in self.q.trace.meetings if m.whole_warp)
        yield Doubt("the last warp of a block may have fewer than 32 lanes", "", first.operation, {}, True)

    def _same_way(self, branch: SymbolicBranch, in_warp: bool) -> bool:
        """Whether two threads of a block (or of a warp) always take the same way."""
        if branch.condition.level < THREAD:
            return not self._needs_order(branch.condition)
        if any(loop in self.q.trace.divergent for loop in self._loops_of(branch.block)):
            return False  # two threads are in different iterations when they come to it
        terms = self.terms
        other = Renaming(self.q, Sharing({}, all_loops=True), same_block=True)
        path, condition = other.condition(branch.path), other.condition(branch.condition)
        asked = [branch.path, path, branch.condition, terms.negated(condition), *other.facts()]
        if in_warp:
            asked.append(self._same_warp(other))
        return self.prover.together(asked).kind == "no"

    def _loops_of(self, block: int) -> Iterator[int]:
        return (n for n, loop in enumerate(self.q.cfg.loops) if block in loop.blocks)

    def _same_warp(self, other: Renaming) -> Formula:
        x, y, _ = self.q.assumptions.block
        terms = self.terms
        linear = terms.zero
        for atom in reversed(self.q.threads):
            axis = str(atom.arguments[0])[-1]
            step = {"x": terms.one, "y": x, "z": terms.product(x, y)}[axis]
            linear = terms.sum(linear, terms.product(step, terms.of(atom)))
        return terms.compare("eq", terms.div(linear, 32), terms.div(other.poly(linear), 32))

    # --- racecheck

    def racecheck(self) -> Iterator[Doubt]:
        """The pairs of accesses of two threads that may be of the same bytes, in no order."""
        by_region: dict[Atom | None, list[tuple[SymbolicAccess, SplitOffset]]] = {}
        for access in self.q.trace.accesses:
            for place in self._places(access):
                region = place.region
                if region is not None and (region.space in ("local", "const") or self._is_allowed(region)):
                    continue
                by_region.setdefault(None if region is None else region.base, []).append((access, place))
        unknown = [one for one in by_region.pop(None, []) if not self._is_never(one[1])]
        for access, place in unknown[:1]:
            why, fix = self._unknown_address(place.offset)
            yield Doubt(why, fix, access.operation, {})
        regions = [(self.q.regions[base], found) for base, found in by_region.items() if base is not None]
        ordered = not unknown
        for region, found in regions:
            for doubt in self._races(region, found) if region.space == "shared" else ():
                ordered = False
                yield doubt
        races = any(region.space == "shared" and self._is_allowed(region) for region in self.q.regions.values())
        self.shared_is_ordered = ordered and not races
        for region, found in regions:
            yield from self._races(region, found) if region.space != "shared" else ()

    def _is_never(self, place: SplitOffset) -> bool:
        return self.prover.together((place.path,)).kind == "no"

    def _is_allowed(self, region: Region) -> bool:
        return region.name in self._allowed or (region.space == "shared" and "shared" in self._allowed)

    def _races(self, region: Region, found: list[tuple[SymbolicAccess, SplitOffset]]) -> Iterator[Doubt]:
        asked: set[tuple[object, ...]] = set()
        told: set[tuple[object, ...]] = set()
        for n, (first, one) in enumerate(found):
            for second, two in found[n:]:
                kinds = {first.kind, second.kind}
                if kinds == {"read"} or kinds == {"atomic"}:
                    continue
                key = (
                    one.offset,
                    one.path,
                    first.size,
                    first.block,
                    two.offset,
                    two.path,
                    second.size,
                    second.block,
                )
                if key in asked:
                    continue
                asked.add(key)
                line = (first.operation.loc, second.operation.loc)
                if line in told:
                    continue
                doubt = self._race(region, (first, one), (second, two))
                if doubt is not None:
                    told.add(line)
                    yield doubt

    def _race(
        self, region: Region, first: tuple[SymbolicAccess, SplitOffset], second: tuple[SymbolicAccess, SplitOffset]
    ) -> Doubt | None:
        """Why two accesses may race; None if they cannot."""
        a, b = first[0], second[0]
        answers = []
        if region.space == "global":
            answers.append(self._together(region, first, second, Sharing({}), same_block=False))
        if a.is_async or b.is_async:
            answers.append(self._together(region, first, second, None, same_block=True))
        elif self.converges:
            for sharing in sharings(self.q, a, b):
                answers.append(self._together(region, first, second, sharing, same_block=True))
        else:
            answers.append(self._together(region, first, second, Sharing({}), same_block=True))
        open_ = [answer for answer in answers if answer is not None]
        if not open_:
            return None
        kinds = "two writes" if "read" not in (a.kind, b.kind) else "a write and a read"
        lines = [x.operation.loc.line for x in (a, b) if x.operation.loc is not None]
        where = f" (lines {lines[0]} and {lines[1]})" if len(lines) == 2 and lines[0] != lines[1] else ""
        cause, fix = self._cause(first[1].offset)
        if "no bounds" in cause:
            cause, fix = self._cause(second[1].offset)
        why = f"{kinds} of {region.name}{where} by two threads may be of the same element"
        if "no bounds" not in cause:
            why += f": {cause}"
        writer = a if a.kind != "read" else b
        return Doubt(why, fix, writer.operation, open_[0])

    def _together(
        self,
        region: Region,
        first: tuple[SymbolicAccess, SplitOffset],
        second: tuple[SymbolicAccess, SplitOffset],
        sharing: Sharing | None,
        *,
        same_block: bool,
    ) -> Mapping[str, int] | None:
        """What the solver proposes for two threads that access the same bytes; None: that is impossible.

        Args:
            sharing: None: they may be one thread, because one access happens later.
        """
        other = Renaming(self.q, sharing or Sharing({}), same_block=same_block)
        (a, one), (b, two) = first, second
        path = other.condition(two.path)
        differ = self.terms.true if sharing is None else other.differ()
        same = self._overlap(region, (a, one), (b, two), other)
        rules = list(self._whole_numbers(region, first, other))
        answer = self.prover.together((one.path, path, differ, same, *rules, *other.facts()))
        return None if answer.kind == "no" else answer.values or {"": 0}

    def _whole_numbers(
        self, region: Region, first: tuple[SymbolicAccess, SplitOffset], other: Renaming
    ) -> Iterator[Formula]:
        """That two numbers with the same quotient and the same remainder are the same."""
        terms = self.terms
        index = self.index(region, first[1], first[0].size) if region.shape else None
        for atom in dict.fromkeys(atom for part in index or () for atom in part.atoms()):
            if atom.kind != "fn" or atom.arguments[0] != "remainder+":
                continue
            _, x, y = atom.arguments
            assert isinstance(x, Poly)
            assert isinstance(y, Poly)
            if other.poly(y) is not y:
                continue
            parts = (terms.of(atom), terms.function("quotient+", (x, y), (0, None)))
            x2 = other.poly(x)
            outside = [terms.compare("lt", one, terms.zero) for one in (x, x2)]
            differs = [terms.compare("ne", part, other.poly(part)) for part in parts]
            is_null = terms.compare("lt", y, terms.one)
            yield terms.any((is_null, *outside, *differs, terms.compare("eq", x, x2)))

    def _overlap(
        self,
        region: Region,
        first: tuple[SymbolicAccess, SplitOffset],
        second: tuple[SymbolicAccess, SplitOffset],
        other: Renaming,
    ) -> Formula:
        """Whether two accesses have a byte in common."""
        terms = self.terms
        (a, one), (b, two) = first, second
        if region.shape and region.is_injective and a.size == b.size == region.itemsize:
            left, right = self.index(region, one, a.size), self.index(region, two, b.size)
            if left is not None and right is not None and len(left) == len(right):
                return terms.all(terms.compare("eq", x, other.poly(y)) for x, y in zip(left, right, strict=True))
        offset = other.poly(two.offset)
        if a.size == b.size:
            p, r = terms.exact_quotient(one.offset, a.size), terms.exact_quotient(two.offset, a.size)
            if p is not None and r is not None:
                return self._equal(p, other.poly(r), one.path, other)
        return terms.all(
            (
                terms.compare("lt", one.offset, terms.sum(offset, terms.number(b.size))),
                terms.compare("lt", offset, terms.sum(one.offset, terms.number(a.size))),
            )
        )

    def _equal(self, p: Poly, r: Poly, path: Formula, other: Renaming) -> Formula:
        return self.terms.compare("eq", p, r)
