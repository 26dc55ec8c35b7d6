"""Merges the events of shards into those of the whole run: the same as from a single process, except for times.

They differ only if a spec that is split between shards stops early: each shard decides for its own cases whether a
case that does not end, or a first case that cannot be judged, stops the others.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kcheck.errors import UserError
from kcheck.model import Event, RunFinished, RunStarted, Sanitized, SpecFinished, SpecRefused, SpecStarted
from kcheck.model.shard import PlannedSpec, Shard
from kcheck.runner.common_notes import not_of_all
from kcheck.runner.reaching import Reaching

_Named = tuple[str, Sequence[Event]]
"""The name of a file, and the events of the shard in it."""


def merged_shards(shards: Sequence[_Named]) -> list[Event]:
    """The events of the whole run.

    Args:
        shards: each with the name of its file, in any order. A ``Captured`` comes before its case.

    Raises:
        UserError: a shard is missing, is given twice, or is from a different run; the message has the fix.
    """
    ordered = _checked(shards)
    heads = [_head(events)[0] for _, events in ordered]
    plan = _head(ordered[0][1])[1].plan
    head = heads[0]
    specs: list[list[Event]] = []
    for number, (_, events) in enumerate(ordered):
        for place, spec in enumerate(events_by_spec(events)):
            if (
                not place
                and specs
                and _splits(plan, number, len(ordered))
                and _same_refusal(specs[-1][0], spec[0])
            ):
                continue  # the previous shard could not load it either
            specs.append(spec)
    body = [event for spec in _joined(specs) for event in spec]
    ends = [_finish(events) for _, events in ordered]
    begun = {event.path for event in body if isinstance(event, SpecRefused | SpecStarted)}
    left = dict.fromkeys(path for end in ends for path in end.not_begun if path not in begun)
    budget = max((end.budget for end in ends if end.budget is not None), default=None)
    finish = RunFinished(
        sum(end.seconds for end in ends), any(end.interrupted for end in ends), tuple(left), budget
    )
    command, started = _whole(head.command), min(head.started for head in heads)
    return [replace(head, command=command, started=started, specs=len(plan), shard=None), *body, finish]


def _checked(shards: Sequence[_Named]) -> list[_Named]:
    """The shards in the order of their numbers, after checking that all of one run are given, each once."""
    name = shards[0][0]
    run, first = _head(shards[0][1])
    by_number: dict[int, _Named] = {}
    for other_name, other_events in shards:
        other_run, other = _head(other_events)
        if other.of != first.of:
            raise UserError(
                f"{name} is one of {first.of} shards, but {other_name} is one of {other.of}; "
                "pass the shards of one run"
            )
        if other.number in by_number:
            raise UserError(
                f"{by_number[other.number][0]} and {other_name} are both shard {other.number}/{other.of}; give "
                "each shard once"
            )
        by_number[other.number] = other_name, other_events
        where = f"{other_name} (shard {other.number}/{other.of})"
        _same_setup(where, other, name, first)
        if other_run.device != run.device:
            raise UserError(
                f"{where}: ran on the device {other_run.device}, {name} on {run.device}; give every shard "
                "the same --device"
            )
        _same_plan(where, other, name, first)
    missing = [f"{number}/{first.of}" for number in range(1, first.of + 1) if number not in by_number]
    if missing:
        many = len(missing) > 1
        raise UserError(
            f"shard{'s' * many} {', '.join(missing)} {'are' if many else 'is'} missing; add the report of "
            f"`kcheck run --shard {missing[0]} --format json -o FILE`"
        )
    return [by_number[number] for number in sorted(by_number)]


def _same_setup(where: str, other: Shard, name: str, first: Shard) -> None:
    for package in {**first.versions, **other.versions}:
        has, had = other.versions.get(package, "none"), first.versions.get(package, "none")
        if has != had:
            raise UserError(
                f"{where}: made with {package} {has}, {name} with {had}; install the same versions for every shard"
            )
    for option in {**first.settings, **other.settings}:
        has, had = other.settings.get(option, ""), first.settings.get(option, "")
        if has != had:
            raise UserError(
                f"{where}: ran with {option} {has or 'not given'}, {name} with {had or 'not given'}; run "
                "every shard with the same options"
            )


def _same_plan(where: str, other: Shard, name: str, first: Shard) -> None:
    ours, theirs = [spec.path for spec in first.plan], [spec.path for spec in other.plan]
    if ours != theirs:
        odd = next(
            iter([path for path in ours if path not in theirs] + [path for path in theirs if path not in ours]), ""
        )
        what = f"{odd} is only in one of them" if odd else "their order differs"
        raise UserError(f"{where} and {name} have different specs: {what}; run every shard with the same specs")
    for mine, spec in zip(first.plan, other.plan, strict=True):
        if mine != spec:
            raise UserError(
                f"{where}: {spec.path} has different cases or files than in {name}; run every shard on the same "
                "commit, with the same options and the same stored failures"
            )


def _head(events: Sequence[Event]) -> tuple[RunStarted, Shard]:
    head = events[0]
    assert isinstance(head, RunStarted)
    assert head.shard is not None
    return head, head.shard


def _finish(events: Sequence[Event]) -> RunFinished:
    return events[-1] if isinstance(events[-1], RunFinished) else RunFinished(0.0, True)


def _whole(command: str) -> str:
    """The command line without ``--shard``."""
    words = iter(shlex.split(command))
    kept = []
    for word in words:
        if word == "--shard":
            next(words, None)
        elif not word.startswith("--shard="):
            kept.append(word)
    return shlex.join(kept)


def events_by_spec(events: Iterable[Event]) -> list[list[Event]]:
    """The events of each spec of a run, starting with SpecStarted or SpecRefused."""
    found: list[list[Event]] = []
    for event in events:
        if isinstance(event, SpecRefused | SpecStarted):
            found.append([event])
        elif found and not isinstance(event, RunFinished):
            found[-1].append(event)
    return found


def _same_refusal(before: Event, after: Event) -> bool:
    if not isinstance(before, SpecRefused) or not isinstance(after, SpecRefused):
        return False
    return before.path == after.path


def _splits(plan: Sequence[PlannedSpec], number: int, of: int) -> bool:
    """Whether a spec has cases before and after the beginning of shard ``number``, counted from 0."""
    cut = sum(spec.cases for spec in plan) * number // of
    before = 0
    for spec in plan:
        if before < cut < before + spec.cases:
            return True
        before += spec.cases
    return False


def _joined(specs: Iterable[list[Event]]) -> Iterator[list[Event]]:
    """The specs, with the parts of a spec from several shards joined."""
    parts: list[list[Event]] = []
    for spec in specs:
        first = spec[0]
        if parts and not _follows(parts[-1][0], first):
            yield _join(parts)
            parts = []
        if isinstance(first, SpecStarted) and first.part is not None:
            parts.append(spec)
        else:
            yield spec
    if parts:
        yield _join(parts)


def _follows(before: Event, after: Event) -> bool:
    if not isinstance(before, SpecStarted) or not isinstance(after, SpecStarted):
        return False
    if before.part is None or after.part is None:
        return False
    return (before.path, before.op) == (after.path, after.op) and before.part.stop <= after.part.first


def _join(parts: Sequence[list[Event]]) -> list[Event]:
    starts = [part[0] for part in parts]
    ends = [part[-1] for part in parts]
    opened = [event for event in starts if isinstance(event, SpecStarted)]
    closed = [event for event in ends if isinstance(event, SpecFinished)]
    planned = max(event.part.planned for event in opened if event.part is not None)
    begun = replace(opened[0], cases=planned, part=None, started=min(event.started for event in opened))
    cases = [event for part in parts for event in part[1:] if not isinstance(event, SpecFinished)]
    return [begun, *cases, *([_sum(closed, planned)] if closed else [])]


def _sum(ends: Sequence[SpecFinished], planned: int) -> SpecFinished:
    passed, failed, errors = (sum(getattr(end, name) for end in ends) for name in ("passed", "failed", "errors"))
    skipped = planned - passed - failed - errors
    findings = dict.fromkeys(finding for end in ends for finding in end.findings if not _is_vacuous(finding.rule))
    vacuous = () if skipped else tuple(f for f in ends[-1].findings if _is_vacuous(f.rule))
    sanitizers = tuple(
        Sanitized(
            each.name,
            each.level,
            sum(one.cases for end in ends for one in end.sanitizers if one.name == each.name),
            any(one.proved for end in ends for one in end.sanitizers if one.name == each.name),
        )
        for each in ends[0].sanitizers
    )
    reaching = Reaching()
    for end in ends:
        if end.tally is not None:
            reaching.add_tally(end.tally)
    fixed = [end.fixed_since for end in ends if end.fixed_since is not None]
    return replace(
        ends[0],
        passed=passed,
        failed=failed,
        errors=errors,
        skipped=skipped,
        findings=(*vacuous, *findings),
        notes=_notes(ends),
        seconds=sum(end.seconds for end in ends),
        sanitizers=sanitizers,
        recalled=sum(end.recalled for end in ends),
        fixed=sum(end.fixed for end in ends),
        fixed_since=max(fixed, default=None),
        coverage=reaching.result(""),
        shapes=_shapes(ends),
        tally=None,
    )


def _shapes(ends: Sequence[SpecFinished]) -> dict[str, tuple[str, ...]]:
    """The classes of the sizes of each dim, in the order in which cases have them."""
    found: dict[str, dict[str, None]] = {}
    for end in ends:
        for dim, classes in end.shapes.items():
            found.setdefault(dim, {}).update(dict.fromkeys(classes))
    return {dim: tuple(classes) for dim, classes in found.items()}


def _notes(ends: Sequence[SpecFinished]) -> tuple[str, ...]:
    """The notes of all parts, each once, in the order that a single run would give them."""
    groups = [end.tally.notes if end.tally is not None else (end.notes,) for end in ends]
    stages = max(map(len, groups))
    dropped = not_of_all((bool(end.failed or end.errors), end.notes) for end in ends)
    found = (note for stage in range(stages) for group in groups for note in (*group, *((),) * stages)[stage])
    return tuple(dict.fromkeys(note for note in found if note not in dropped))


def _is_vacuous(rule: str) -> bool:
    return rule == "vacuous"
