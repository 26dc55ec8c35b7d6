"""Values of the model as JSON text and back, without loss: the content of the store and of ``.kcase`` files.

A dataclass is an object with its class under ``"is"``; a tuple is a list; a complex number is ``{"is":
"complex"}``. NaN and the infinities are written as Python's ``json`` does. A field with its default value may be
missing, so that an old store can be read after a field is added; unknown fields are ignored.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from kcheck.errors import UserError
from kcheck.model import (
    STRICT,
    Case,
    CaseFinished,
    CodeCoverage,
    Comparison,
    Distribution,
    Element,
    ErrorMap,
    Fault,
    FileCoverage,
    Finding,
    FunctionRef,
    RunFinished,
    RunStarted,
    Sanitized,
    Span,
    SpecFinished,
    SpecRefused,
    SpecStarted,
    Status,
    Strict,
    Verdict,
)
from kcheck.model.coverage import CodePoint
from kcheck.model.note import Note
from kcheck.model.outcome import InGap, KeptDigits, NotCompiling, SpecialValue
from kcheck.model.shard import Part, PlannedSpec, Shard, Tally

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(
            Case,
            CodeCoverage,
            CodePoint,
            Comparison,
            Distribution,
            Element,
            ErrorMap,
            Fault,
            FileCoverage,
            Finding,
            FunctionRef,
            InGap,
            KeptDigits,
            NotCompiling,
            Part,
            PlannedSpec,
            Sanitized,
            Shard,
            Span,
            SpecialValue,
            Tally,
            Verdict,
        ),
        *(CaseFinished, RunFinished, RunStarted, SpecFinished, SpecRefused, SpecStarted),
    )
}
_T = TypeVar("_T")


class StoreError(UserError):
    """The store, or a ``.kcase`` file, cannot be used. The message says which, why, and how to fix it."""


class StoreFull(StoreError):
    """The disk that the store is on is full."""


class DocumentRefused(ValueError):
    """Text that is not a valid document."""


def dumps(value: object) -> str:
    """A value of the model as JSON text; the same text for the same value."""
    return json.dumps(_encode(value), separators=(",", ":"), ensure_ascii=False)


def loads(text: str, kind: type[_T]) -> _T:
    """The value from which :func:`dumps` made a text.

    Raises:
        DocumentRefused: the text is not a value of this kind.
    """
    try:
        value = _decode(json.loads(text))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DocumentRefused(f"{type(error).__name__}: {error}") from error
    if not isinstance(value, kind):
        raise DocumentRefused(f"expected {kind.__name__}, found {type(value).__name__}")
    return value


def _encode(value: object) -> Any:
    if isinstance(value, Status):
        return {"is": "Status", "name": value.value}
    if isinstance(value, Strict):
        return {"is": "Strict"}
    if isinstance(value, Note):
        return {"is": "Note", "text": str(value), "kind": value.kind}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return {"is": "datetime", "at": value.isoformat()}
    if isinstance(value, complex):
        return {"is": "complex", "real": value.real, "imag": value.imag}
    if isinstance(value, tuple | list):
        return [_encode(part) for part in value]
    if isinstance(value, Mapping):
        return {str(name): _encode(part) for name, part in value.items()}
    if type(value).__name__ not in _KINDS or not dataclasses.is_dataclass(value):
        raise TypeError(f"{type(value).__name__} is not stored")
    fields = {"is": type(value).__name__}
    for field in dataclasses.fields(value):
        held = getattr(value, field.name)
        if field.default is dataclasses.MISSING or held is not field.default:
            fields[field.name] = _encode(held)
    return fields


def _decode(document: Any) -> Any:
    if isinstance(document, list):
        return tuple(_decode(part) for part in document)
    if not isinstance(document, dict):
        return document
    if "is" not in document:
        return {name: _decode(part) for name, part in document.items()}
    if document["is"] == "complex":
        return complex(document["real"], document["imag"])
    if document["is"] == "datetime":
        return datetime.fromisoformat(document["at"])
    if document["is"] == "Status":
        return Status(document["name"])
    if document["is"] == "Note":
        return Note(document["text"], document["kind"])
    if document["is"] == "Strict":
        return STRICT
    kind = _KINDS[document["is"]]
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: _decode(part) for name, part in document.items() if name in known})
