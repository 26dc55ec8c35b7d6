"""Outcomes as messages. A candidate's process writes them, so :func:`read_outcome` checks every field."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.generator import CaseArrays
from kcheck.grading.channel import BadMessage, Received
from kcheck.model import SANITIZERS, Case, Finding, OpSpec, Outcome, Span, TensorSum
from kcheck.model.launch_facts import LaunchFacts

Array: TypeAlias = npt.NDArray[Any]

_NARROW = ("16-bit", "16-bit sums", "tf32")
_MOST_TEXT = 4000
MOST_FINDINGS = 200


def write_outcome(outcome: Outcome, names: list[str]) -> tuple[dict[str, Any], list[memoryview]]:
    """The header and the blobs of an outcome.

    Args:
        names: the outputs, in order.
    """
    outputs = [outcome.outputs[name] for name in names if name in outcome.outputs]
    masks = [(name, outcome.unwritten[name]) for name in names if name in outcome.unwritten]
    fields = {
        "kind": "outcome",
        "outputs": [name for name in names if name in outcome.outputs],
        "unwritten": [name for name, _ in masks],
        "findings": [asdict(finding) for finding in outcome.findings[:MOST_FINDINGS]],
        "notes": list(outcome.notes),
        "checked": list(outcome.checked),
    }
    arrays = [*outputs, *(mask for _, mask in masks)]
    return fields, [_bytes(array) for array in arrays]


def digest(array: Array) -> str:
    """A digest of the bytes of an array's elements."""
    return hashlib.blake2b(_bytes(array), digest_size=16).hexdigest()


def changed_inputs(received: Received, arrays: CaseArrays, outcome: Outcome) -> list[str]:
    """The inputs that a call has changed, by the digests in an answer, except those that it also returns.

    Raises:
        AttributeError, TypeError, KeyError: there are no digests of inputs.
    """
    returned = {digest(output) for output in outcome.outputs.values()}
    return [
        name
        for name, after in received.fields["after"].items()
        if after not in {digest(arrays.allocation(name).view()), *returned}
    ]


def write_facts(facts: LaunchFacts) -> dict[str, Any]:
    """The fields of facts."""
    narrow = None if facts.narrow_floats is None else sorted(facts.narrow_floats)
    return {
        "atomics": facts.float_atomics,
        "narrow": narrow,
        "sums": [asdict(each) for each in sorted(facts.tensor_sums)],
    }


def read_facts(fields: Mapping[str, Any]) -> LaunchFacts:
    """The facts in an answer of a device process.

    Raises:
        KeyError, TypeError, ValueError: there are none.
    """
    narrow = None if fields["narrow"] is None else frozenset(str(x) for x in fields["narrow"] if x in _NARROW)
    sums = frozenset(TensorSum(*(int(each[k]) for k in ("kept", "terms", "fraction"))) for each in fields["sums"])
    return LaunchFacts(bool(fields["atomics"]), narrow, sums)


def _bytes(array: Array) -> memoryview:
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def read_outcome(received: Received, spec: OpSpec, case: Case, arrays: CaseArrays, device: str) -> Outcome:
    """The outcome in an answer.

    Raises:
        BadMessage: a field is not as :func:`write_outcome` writes it.
    """
    try:
        return _outcome(received, spec, case, arrays, device)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BadMessage(f"its answer has a wrong field ({type(error).__name__})") from error


def _outcome(received: Received, spec: OpSpec, case: Case, arrays: CaseArrays, device: str) -> Outcome:
    fields, blobs = received.fields, list(received.blobs)
    names, masked = list(fields["outputs"]), list(fields["unwritten"])
    if len(blobs) != len(names) + len(masked) or not set(names + masked) <= set(spec.outputs):
        raise BadMessage("its answer has other arrays than the problem's outputs")
    outputs = {name: _array(blobs.pop(0), arrays, name) for name in names}
    unwritten = {name: _array(blobs.pop(0), arrays, name, np.dtype(bool)) for name in masked}
    if outputs and set(outputs) != set(spec.outputs):
        raise BadMessage("its answer lacks an output")
    findings = tuple(read_finding(each) for each in fields["findings"][:MOST_FINDINGS])
    notes = tuple(_text(note) for note in fields["notes"])
    checked = tuple(name for name in SANITIZERS if name in fields["checked"])
    return Outcome(case, device, outputs, unwritten, findings, notes, checked)


def _array(blob: bytes, arrays: CaseArrays, name: str, dtype: np.dtype[Any] | None = None) -> Array:
    memory = arrays.allocation(name)
    dtype = memory.dtype.numpy if dtype is None else dtype
    count = int(np.prod(memory.shape, dtype=np.int64))
    if len(blob) != count * dtype.itemsize:
        raise BadMessage(f"its answer has {len(blob)} bytes for {name}")
    if dtype == np.dtype(bool):
        truth: Array = np.frombuffer(blob, np.uint8).reshape(memory.shape) != 0
        return truth
    return np.frombuffer(blob, np.uint8).view(dtype).reshape(memory.shape)


def read_finding(fields: Mapping[str, Any]) -> Finding:
    """A finding that a candidate's process reports."""
    index, other = fields["index"], fields["other"]
    return Finding(
        _text(fields["rule"]),
        _text(fields["message"]),
        "warn" if fields["severity"] == "warn" else "error",
        _text(fields["fix"]),
        array=_optional(fields["array"]),
        index=None if index is None else tuple(int(part) for part in index),
        kernel=_optional(fields["kernel"]),
        block=_index(fields["block"]),
        thread=_index(fields["thread"]),
        other=None if other is None else (_required(other[0]), _required(other[1])),
        place=_span(fields["place"]),
        count=max(1, int(fields["count"])),
        other_place=_span(fields["other_place"]),
        stack=tuple(span for span in map(_span, fields["stack"][:50]) if span is not None),
        lenient=fields["lenient"] is True,
        note=fields["note"] is True,
        unit="program" if fields["unit"] == "program" else "block",
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value[:_MOST_TEXT]


def _optional(value: Any) -> str | None:
    return None if value is None else _text(value)


def _required(value: Any) -> tuple[int, int, int]:
    x, y, z = value
    return int(x), int(y), int(z)


def _index(value: Any) -> tuple[int, int, int] | None:
    return None if value is None else _required(value)


def _span(value: Any) -> Span | None:
    if value is None:
        return None
    return Span(_text(value["file"]), int(value["line"]), int(value["column"]))
