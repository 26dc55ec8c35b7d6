"""nvdisasm: where it is looked for, and what comes of one that is missing, fails or hangs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcheck.device import disassembler
from kcheck.device.disassembler import ToolFailed, disassemble, find_disassembler, identity, no_disassembler


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder to put programs under; no nvdisasm of the machine's is seen."""
    for name in ("NVDISASM_PATH", "CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr("sys.path", [str(tmp_path / "site")])
    monkeypatch.setattr(disassembler, "_SYSTEM", str(tmp_path / "usr"))
    disassembler._found.cache_clear()
    yield tmp_path
    disassembler._found.cache_clear()


def program(folder: Path, text: str = "exit 0") -> str:
    """An nvdisasm of a few lines of shell in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "nvdisasm"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_places_are_tried_in_order(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel's before that of the PATH, that before the toolkit's; triton's wheel counts; a named folder is the
    only one."""
    monkeypatch.setenv("CUDA_HOME", str(nowhere / "toolkit"))
    for folder in ("usr", "toolkit/bin", "path", "site/triton/backends/nvidia/bin", "site/nvidia/cu13/bin"):
        made = program(nowhere / folder)
        disassembler._found.cache_clear()
        assert find_disassembler() == made
        assert no_disassembler() == ""
    monkeypatch.setenv("NVDISASM_PATH", str(nowhere / "toolkit/bin"))
    assert find_disassembler() == str(nowhere / "toolkit/bin/nvdisasm")


def test_without_one_the_fix_is_given(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package to install; where the user has named a folder, that it is not there."""
    assert find_disassembler() == ""
    assert no_disassembler() == "nvdisasm is not installed; pip install nvidia-cuda-nvdisasm"
    program(nowhere / "path")
    disassembler._found.cache_clear()
    monkeypatch.setenv("NVDISASM_PATH", str(nowhere / "empty"))
    assert no_disassembler() == f"there is no nvdisasm in {nowhere}/empty, the folder in NVDISASM_PATH"


def test_what_cannot_be_run_is_not_found(nowhere: Path) -> None:
    """A folder of that name, and a file that is not executable, are passed over; so is a relative folder."""
    (nowhere / "site/nvidia/cu13/bin/nvdisasm").mkdir(parents=True)
    Path(program(nowhere / "path")).chmod(0o644)
    assert find_disassembler() == ""


def test_the_disassembler_gets_the_cubin_and_gives_its_output(tmp_path: Path) -> None:
    """The cubin's bytes are in the file that it is called with, which is gone afterwards."""
    path = program(tmp_path / "a folder", 'for f; do :; done; echo "$f"; cat "$f"')
    file, _, rest = disassemble(b"\x7fELF and more", path).partition("\n")
    assert rest == "\x7fELF and more"
    assert not os.path.exists(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo 'nvdisasm fatal   : Unsupported  SM' >&2; exit 1", "ended with 1: nvdisasm fatal : Unsupported SM"),
        ("exit 3", "ended with 3"),
        ("kill -9 $$", "ended with -9"),
        ("exec sleep 60", "took more than 0.3 s"),
    ],
    ids=["refuses", "fails silently", "is killed", "hangs"],
)
def test_one_that_fails_is_named_with_what_it_said(tmp_path: Path, text: str, said: str) -> None:
    """Its path and its own words; one that hangs is ended at the limit."""
    path = program(tmp_path, text)
    begun = time.monotonic()
    with pytest.raises(ToolFailed) as raised:
        disassemble(b"", path, seconds=0.3 if "sleep" in text else 60)
    assert str(raised.value) == f"{path} {said}"
    assert time.monotonic() - begun < 30


def test_one_that_is_no_program_is_named(tmp_path: Path) -> None:
    """A file of another machine's format, and one that has gone since."""
    path = Path(program(tmp_path))
    path.write_bytes(b"\x00\x01")
    with pytest.raises(ToolFailed, match="cannot be run: Exec format error"):
        disassemble(b"", str(path))
    with pytest.raises(ToolFailed, match="cannot be run: No such file"):
        disassemble(b"", str(tmp_path / "gone"))


def test_another_in_its_place_is_another(tmp_path: Path) -> None:
    """What was kept of one nvdisasm is not taken for that of the next."""
    path = program(tmp_path)
    before = identity(path)
    assert identity(path) == before
    program(tmp_path, "exit 0 # newer")
    assert identity(path) != before
