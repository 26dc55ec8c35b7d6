"""Check one call: run the reference on copies of its arguments, and compare the results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kcheck.errors import KcheckError
from kcheck.monitor.arrays import Copies, arrays_in, as_host, ready
from kcheck.monitor.comparing import differences
from kcheck.monitor.mismatch import Mismatch, stack_of

if TYPE_CHECKING:
    from kcheck.monitor.calls import MonitoredCall
    from kcheck.monitor.specs import SpecJudge


class NotJudged(KcheckError):
    """The spec's reference could not be used."""


def check(call: MonitoredCall, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mismatch | None:
    """Compare the result of a call with its reference.

    Args:
        args, kwargs: the arguments before the call; the reference gets copies.

    Returns:
        None if they agree.

    Raises:
        Exception: whatever the reference raises.
    """
    result = ready(call.result)
    after = None if call.after is None else ready(call.after)
    if call.site.judge is not None:
        return _by_spec(call.site.judge, call, (args, kwargs), result, after)
    copies = Copies()
    own_args, own_kwargs = ready(copies.of(args)), ready(copies.of(dict(kwargs)))
    truth = call.reference(*own_args, **own_kwargs)
    if after is not None:
        before = list(arrays_in(*args, *kwargs.values()))
        written = list(arrays_in(*after[0], *after[1].values()))
        if truth is None:
            truth = tuple(arrays_in(*own_args, *own_kwargs.values()))
            result = tuple(written)
        else:
            truth = tuple(truth) if isinstance(truth, list | tuple) else (truth,)
            result = _written(before, written, len(truth))
    found = differences(result, truth, call.site.rtol, call.site.atol)
    if not found:
        return None
    stack = stack_of(call.frames)
    return Mismatch(
        call.site.name, call.number, args, kwargs, result, truth, found.comparisons, found.sentences, stack
    )


def _written(before: list[Any], after: list[Any], count: int) -> tuple[Any, ...]:
    """The arguments that a call wrote to, which are those that changed. If there are fewer than ``count``, the
    last of the others are added: an output may already have had the correct values."""
    changed = [not _same(one, other) for one, other in zip(before, after, strict=True)]
    for place in reversed(range(len(changed))):
        if sum(changed) >= count:
            break
        changed[place] = True
    return tuple(array for array, is_output in zip(after, changed, strict=True) if is_output)


def _same(one: Any, other: Any) -> bool:
    first, second = as_host(one), as_host(other)
    return first.shape == second.shape and first.tobytes() == second.tobytes() and first.dtype == second.dtype


def _by_spec(
    judge: SpecJudge,
    call: MonitoredCall,
    given: tuple[tuple[Any, ...], Mapping[str, Any]],
    result: Any,
    after: Any,
) -> Mismatch | None:
    arrays = judge.arrays(*given)
    verdict = judge.judge(arrays, result, {} if after is None else judge.named(*after))
    if verdict.status == "error":
        raise NotJudged(str(verdict))
    if verdict.passed:
        return None
    kcase = judge.save(arrays, verdict, result) if call.site.on_mismatch == "save" else None
    truth = {name: np.asarray(value) for name, value in judge.truth(arrays).items()}
    return Mismatch(
        call.site.name,
        call.number,
        *given,
        result,
        next(iter(truth.values())) if len(truth) == 1 else truth,
        tuple(found for found in verdict.comparisons if not found.passed),
        tuple(finding.message for finding in verdict.findings if finding.severity == "error"),
        stack_of(call.frames),
        verdict,
        kcase,
    )
