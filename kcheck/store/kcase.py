"""A failing case as a file, for another machine or an issue: its exact inputs, its verdict, its output bits.

::

    case.json           version, verdict, bits by output, snapshot
    blobs/<digest>      the elements of an array

It is a zip archive with the same bytes for the same case. The content of an archive is never trusted: sizes are
limited before anything is unpacked, every blob is compared with its digest, and nothing in it is executed.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from kcheck.dataclass import dataclass
from kcheck.generator import MEMORY_LIMIT, SnapshotRefused, restore
from kcheck.model import Snapshot, Verdict
from kcheck.store.documents import DocumentRefused, StoreError, dumps, loads
from kcheck.store.snapshots import checked, pack, unpack

VERSION = 1
_MOST_DOCUMENT = 16 << 20  # bytes: a verdict has a few kilobytes
_BROKEN = (
    *(
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ),  # not an archive
    *(ValueError, TypeError, KeyError, AttributeError, OverflowError),  # not such a document
)
_THEN = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can store


@dataclass(frozen=True, eq=False, slots=True)
class Kcase:
    """The content of a ``.kcase`` file.

    Attributes:
        verdict: None if the case was not judged before the export.
        bits: by output, a digest of its bits; empty if there was no output, or the case did not run.
    """

    snapshot: Snapshot
    verdict: Verdict | None
    bits: Mapping[str, str]


def write_kcase(stream: BinaryIO, case: Kcase, version: str) -> None:
    """Write a case.

    Args:
        version: of kcheck, for the reader of the file.

    Raises:
        OSError: the disk is full.
    """
    document, blobs = pack(case.snapshot)
    head = {
        "kcase": VERSION,
        "kcheck": version,
        "verdict": None if case.verdict is None else json.loads(dumps(case.verdict)),
        "bits": dict(case.bits),
        "snapshot": json.loads(document),
    }
    with zipfile.ZipFile(stream, "w") as archive:
        parts = [("case.json", json.dumps(head, indent=1, ensure_ascii=False).encode())]
        parts += [(f"blobs/{name.hex()}", content) for name, content in sorted(blobs.items())]
        for name, content in parts:
            entry = zipfile.ZipInfo(name, _THEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)


def read_kcase(path: Path) -> Kcase:
    """Read a case.

    Raises:
        StoreError: the file does not exist, was not written by kcheck, or is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MEMORY_LIMIT:
                raise DocumentRefused("its unpacked size exceeds the limit for a case")
            head = json.loads(_read(archive, "case.json", _MOST_DOCUMENT))
            if not isinstance(head, dict) or "kcase" not in head:
                raise DocumentRefused("it has no case")
            if head["kcase"] != VERSION:
                raise StoreError(f"{path}: written by a newer kcheck ({head.get('kcheck')!r:.20}); upgrade kcheck")

            def blob(name: bytes) -> bytes:
                return _read(archive, f"blobs/{name.hex()}", MEMORY_LIMIT)

            snapshot = unpack(json.dumps(head["snapshot"]), blob)
            verdict = None if head["verdict"] is None else loads(json.dumps(head["verdict"]), Verdict)
            if verdict is not None:
                verdict = replace(verdict, case=checked(verdict.case))
            bits = {str(name): str(digest) for name, digest in head["bits"].items()}
        restore(snapshot)  # refuses arrays that extend beyond their memory
        return Kcase(snapshot, verdict, bits)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (DocumentRefused, SnapshotRefused) as error:
        raise StoreError(f"{path}: this is not a case that kcheck exported ({error}); export it again") from None
    except _BROKEN as error:
        what = f"{type(error).__name__}: {error}"
        raise StoreError(f"{path}: this is not a case that kcheck exported ({what}); export it again") from None


def _read(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    try:
        entry = archive.getinfo(name)
    except KeyError:
        raise DocumentRefused(f"{name} is missing") from None
    if entry.file_size > most:
        raise DocumentRefused(f"{name} is too large")
    with archive.open(entry) as part:
        content = part.read(entry.file_size + 1)  # the size in the header may be wrong
    if len(content) != entry.file_size:
        raise DocumentRefused(f"{name} has the wrong size")
    return content
