"""A ``.kcase`` file: exact, the same bytes each time, and nothing that a stranger writes into one does harm."""

from __future__ import annotations

import io
import json
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
from stored_runs import captured, verdict

from kcheck.store import StoreError, bits
from kcheck.store.documents import dumps
from kcheck.store.kcase import Kcase, read_kcase, write_kcase


def written() -> bytes:
    one = verdict()
    taken = captured(one.case)
    stream = io.BytesIO()
    write_kcase(stream, Kcase(taken.snapshot, one, bits(taken.outputs)), "0.1")
    return stream.getvalue()


def test_a_case_comes_back(tmp_path: Path) -> None:
    """Inputs, verdict and bits are those that were written, and writing is a function of the case."""
    file = tmp_path / "a case.kcase"
    file.write_bytes(written())
    held = read_kcase(file)
    assert dumps(held.verdict) == dumps(verdict())
    assert np.array_equal(held.snapshot.arrays[0].values, np.ones(5, np.float32))
    assert held.bits == bits(captured(verdict().case).outputs)
    assert written() == file.read_bytes()


def test_any_injury_is_an_error_of_the_file(tmp_path: Path) -> None:
    """400 files with bytes changed, cut or repeated are read as what they were, or refused by name; nothing
    else."""
    whole, drawn = written(), random.Random(5)
    refused = 0
    for number in range(400):
        content = bytearray(whole)
        match number % 3:
            case 0:
                for _ in range(drawn.randint(1, 8)):
                    content[drawn.randrange(len(content))] = drawn.randrange(256)
            case 1:
                del content[drawn.randrange(len(content)) :]
            case _:
                at = drawn.randrange(len(content))
                content[at:at] = content[drawn.randrange(len(content)) :][:200]
        file = tmp_path / "x.kcase"
        file.write_bytes(content)
        try:
            held = read_kcase(file)
        except StoreError:
            refused += 1
        else:
            assert np.array_equal(held.snapshot.arrays[0].values, np.ones(5, np.float32))
    assert refused > 200


def rewritten(change) -> bytes:
    """A file whose document was changed by a stranger, its archive whole."""
    with zipfile.ZipFile(io.BytesIO(written())) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    head = json.loads(parts["case.json"])
    change(head)
    parts["case.json"] = json.dumps(head).encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return stream.getvalue()


def put(*path: object):
    """Set the value at a path of the document."""
    *where, key, value = path

    def change(head) -> None:
        for step in where:
            head = head[step]
        head[key] = value

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("kcase", 2), "written by a newer kcheck"),
        (put("snapshot", "arrays", 0, "offset", -8), "does not fit in"),
        (put("snapshot", "arrays", 0, "size", 1 << 50), "its arrays take"),
        (put("snapshot", "arrays", 0, "strides", [1 << 40]), "does not fit in"),
        (put("snapshot", "arrays", 0, "shape", [-5]), "shape (-5,)"),
        (put("snapshot", "arrays", 0, "shape", [1 << 40]), "bytes for x"),
        (put("snapshot", "arrays", 0, "dtype", "object"), "KeyError"),
        (put("snapshot", "arrays", 0, "values", "../../etc"), "this is not a case"),
        (put("snapshot", "case", "dims", {"N": "5"}), "dim N is '5'"),
        (put("snapshot", "case", "seed", -1), "seed is -1"),
        (put("verdict", "case", "seed", True), "seed is True"),
        (put("verdict", "is", "Launched"), "this is not a case"),
        (put("snapshot", "aliases", {"y": "q"}), "an alias for an unknown array"),
        (put("bits", 7), "this is not a case"),
    ],
)
def test_a_document_that_was_changed_is_refused(tmp_path: Path, change, says: str) -> None:
    """Sizes, strides, dtypes and types that are not what kcheck writes are said, before any memory is taken."""
    file = tmp_path / "x.kcase"
    file.write_bytes(rewritten(change))
    with pytest.raises(StoreError) as refused:
        read_kcase(file)
    assert says in str(refused.value)


def test_a_file_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    """Before anything of it is unpacked."""
    file = tmp_path / "x.kcase"
    file.write_bytes(written())
    with zipfile.ZipFile(file, "a") as archive:
        entry = zipfile.ZipInfo("blobs/00")
        archive.writestr(entry, b"0")
        entry.file_size = 5 << 30
    with pytest.raises(StoreError, match="this is not a case that kcheck exported"):
        read_kcase(file)
