"""An entry of the cache that names a temporary folder is found for the folder that another process has made."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.temporary_names import portable, relocated, temporary_folders

HERE = tempfile.gettempdir()
FIRST, SECOND = f"{HERE}/generated_abcd0123", f"{HERE}/generated__x9_y8zq"
OTHER = f"{HERE}/other_abcd0123"


def test_only_folders_with_random_names_count() -> None:
    text = f'.file 1 "{FIRST}/k.py" {HERE}/pytest-of-me/k.py {HERE}/tmpab_d0123.py /home/abcd0123/k.py {OTHER}/k'
    assert temporary_folders(text) == [FIRST, OTHER]


def test_mkdtemp_makes_such_names(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="with-prefix-") as folder:
        assert temporary_folders(f"{folder}/k.py") == [folder]


def test_an_entry_is_found_for_another_folder_and_names_it(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    cache.put(f"code of {FIRST}/k.py", f"line 3 of {FIRST}/k.py, and {FIRST}".encode())
    assert cache.get(f"code of {SECOND}/k.py") == f"line 3 of {SECOND}/k.py, and {FIRST}".encode()
    assert f"code of {SECOND}/k.py" in cache


@pytest.mark.parametrize(
    "key", [f"code of {HERE}/generate_abcd0123/k.py", f"code of {OTHER}/k.py", f"code of {SECOND}/other.py"]
)
def test_other_names_are_other_entries(tmp_path: Path, key: str) -> None:
    """Names of another length, with other characters before the random ones, and other files."""
    cache = ObjectCache(tmp_path)
    cache.put(f"code of {FIRST}/k.py", b"code")
    assert cache.get(key) is None


def test_the_key_tells_which_folder_a_file_is_in(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    cache.put(f"{FIRST}/a {SECOND}/b {FIRST}/c", b"code")
    assert cache.get(f"{SECOND}/a {FIRST}/b {SECOND}/c") == b"code"
    assert cache.get(f"{FIRST}/a {SECOND}/b {SECOND}/c") is None


def test_two_folders_can_change_places() -> None:
    content = f"{FIRST}/a {SECOND}/b".encode()
    assert relocated(content, [FIRST, SECOND], [SECOND, FIRST]) == f"{SECOND}/a {FIRST}/b".encode()


def test_the_length_of_a_name_is_kept() -> None:
    assert len(portable(f"{FIRST}/k.py", [FIRST])) == len(f"{FIRST}/k.py")
