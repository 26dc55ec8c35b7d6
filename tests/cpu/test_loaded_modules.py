"""A module of PTX that is loaded twice is read once."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.memory import Memory
from kcheck.cpu.module import LoadedModule
from kcheck.errors import PtxError

KERNEL = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n"


def test_modules_of_one_text_share_their_tree(tmp_path: Path) -> None:
    """The driver loads a kernel that was compiled ahead a second time; its text is parsed once, in one file."""
    memory, cache = Memory(1 << 20), ObjectCache(tmp_path)
    first, again = (LoadedModule(KERNEL, memory, cache, "one.ptx") for _ in range(2))
    other_file = LoadedModule(KERNEL, memory, cache, "other.ptx")
    assert again.tree is first.tree
    assert other_file.tree is not first.tree
    assert other_file.tree.file == "other.ptx"


def test_text_that_is_not_ptx_is_refused_each_time(tmp_path: Path) -> None:
    """A failed attempt to read a text leaves nothing to share."""
    memory, cache = Memory(1 << 20), ObjectCache(tmp_path)
    for _ in range(2):
        with pytest.raises(PtxError, match="expected"):
            LoadedModule(KERNEL.replace("ret;", "ret"), memory, cache)
