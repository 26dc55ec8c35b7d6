"""Divides the cases of a run among machines: equal numbers of cases, in the order of the plan.

A spec is compiled on each machine that runs one of its cases, so each shard has consecutive cases: two neighboring
shards have at most one spec in common.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from kcheck.errors import SpecError
from kcheck.model import OpSpec, SpecRefused
from kcheck.model.levels import level_words
from kcheck.model.shard import Part, PlannedSpec, Shard
from kcheck.runner.options import Options
from kcheck.runner.provenance import digests, versions
from kcheck.runner.queue import queued_cases, recipe
from kcheck.runner.select import Matcher, parse
from kcheck.specfile import calibrated
from kcheck.version import __version__


def shared_out(
    specs: Sequence[OpSpec | SpecRefused], options: Options, number: int, of: int
) -> tuple[tuple[OpSpec | SpecRefused, ...], Options]:
    """The specs of one shard, and the options with its part of their cases.

    Args:
        specs: the specs of the whole run, in order.
        number: the number of the shard, from 1.
        of: the number of shards.

    Raises:
        UserError: ``options.keyword`` is not an expression.
    """
    selects = parse(options.keyword) if options.keyword else None
    planned = [_planned(spec, options, selects) for spec in specs]
    total = sum(spec.cases for spec in planned)
    begin, end = total * (number - 1) // of, total * number // of
    mine: list[OpSpec | SpecRefused] = []
    parts: dict[tuple[str, str, str], Part] = {}
    before = 0
    for spec, plan in zip(specs, planned, strict=True):
        first, stop = max(begin - before, 0), min(end - before, plan.cases)
        if plan.cases and first < stop:
            mine.append(spec)
            if stop - first < plan.cases and isinstance(spec, OpSpec):
                parts[spec.root, spec.path, spec.op] = Part(first, stop, plan.cases)
        elif not plan.cases and (begin <= before < end or (before == total and number == of)):
            mine.append(spec)
        before += plan.cases
    shard = Shard(number, of, tuple(planned), _versions(), _settings(options))
    return tuple(mine), replace(options, shard=shard, parts=parts)


def _planned(spec: OpSpec | SpecRefused, options: Options, selects: Matcher | None) -> PlannedSpec:
    if isinstance(spec, SpecRefused):
        return PlannedSpec(spec.path, 0, _digest([str(fault) for fault in spec.faults]))
    try:
        queued = queued_cases(calibrated(spec), options, selects)
    except SpecError as error:  # the run reports it
        return PlannedSpec(spec.path, 0, _digest([str(fault) for fault in error.faults]))
    recipes = ((one.case.id, recipe(one.case), one.snapshot is not None) for one in queued)
    return PlannedSpec(spec.path, len(queued), _digest(chain(recipes, [digests(spec)])))


def _digest(contents: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(json.dumps(content, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def _versions() -> dict[str, str]:
    return {"kcheck": __version__, "Python": platform.python_version(), **versions()}


def _settings(options: Options) -> dict[str, str]:
    """The settings that all shards must share, by command line option."""
    levels = " ".join(level_words(options.sanitize))
    return {
        "--profile": options.profile,
        "--sanitize": levels,
        "--strict": "yes" if options.strict else "no",
        "--coverage": "yes" if options.coverage else "no",
        "--debug-code": "yes" if options.debug_code else "no",
        "--huge": "on" if options.huge else "off",
        "--timeout": "none" if options.timeout is None else f"{options.timeout:g}",
    }
