"""Events as text, without loss, for the JSON report of a shard, which `kcheck merge` reads."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import replace
from typing import TypeVar

from kcheck.model import Captured, Case, CaseFinished, Event
from kcheck.store.documents import DocumentRefused, dumps, loads
from kcheck.store.snapshots import checked, pack, unpack

LARGEST = 1 << 20
"""The most bytes of a case's inputs that are recorded; larger inputs are omitted."""

_MOST = 64 << 20
_T = TypeVar("_T")


def record(event: Event) -> str:
    """An event as text; empty for captured inputs that are too large. Outputs are omitted."""
    if isinstance(event, Captured):
        if sum(array.values.nbytes for array in event.snapshot.arrays if array.values is not None) > LARGEST:
            return ""
        document, blobs = pack(event.snapshot)
        contents = {name.hex(): base64.b64encode(content).decode() for name, content in blobs.items()}
        text = json.dumps({"snapshot": document, "case": dumps(event.snapshot.case), "blobs": contents})
    else:
        text = dumps(event)
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def recorded(text: str, kind: type[_T]) -> _T:
    """The event that was recorded.

    Raises:
        DocumentRefused: the text is damaged, or is a different kind of event.
    """
    value = loads(_text(text), kind)
    if isinstance(value, CaseFinished):
        checked(value.verdict.case)
    return value


def recorded_inputs(text: str) -> Captured:
    """The inputs that were recorded.

    Raises:
        DocumentRefused: the text is damaged.
    """
    try:
        document = json.loads(_text(text))
        blobs = {bytes.fromhex(name): base64.b64decode(part) for name, part in document["blobs"].items()}
        snapshot = unpack(document["snapshot"], blobs.__getitem__)
        snapshot = replace(snapshot, case=checked(loads(document["case"], Case)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DocumentRefused(f"{type(error).__name__}: {error}") from error
    return Captured(snapshot, {})


def _text(text: str) -> str:
    try:
        whole = zlib.decompressobj()
        content = whole.decompress(base64.b64decode(text, validate=True), _MOST)
        if whole.unconsumed_tail:
            raise DocumentRefused("it is too long")
        return content.decode()
    except (zlib.error, binascii.Error, UnicodeDecodeError, TypeError) as error:
        raise DocumentRefused(str(error)) from error
