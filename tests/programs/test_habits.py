"""What compute-sanitizer reports of the host's calls, under kcheck exec: the rule, the line and the allocation."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from test_programs import HERE, NVCC, built, run

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc")


@pytest.fixture(scope="session")
def habits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With debug information of the host."""
    return built(tmp_path_factory, "habits", "-g", "habits.cu")


def line(text: str) -> int:
    """The number of the only line that contains a text."""
    found = [n for n, each in enumerate((HERE / "habits.cu").read_text().splitlines(), 1) if text in each]
    assert len(found) == 1
    return found[0]


D = "device memory of 400 bytes (allocation 1, at habits.cu:MADE_D)"
E = "device memory of 400 bytes (allocation 2, at habits.cu:MADE_E)"


INVALID = {
    "copy": f"copies 404 bytes to {D}: 4 bytes past its end",
    "set": f"sets 400 bytes of {D} from byte 4 on: 4 bytes past its end",
    "rows": f"copies 5 rows of 80 bytes to {D}: 80 bytes past its end",
    "twice": f"frees {E} again; it was freed at habits.cu:FREED",
    "copy after": f"copies 400 bytes from {E}, which was freed at habits.cu:FREED",
    "inside": f"frees byte 4 of {D}",
    "of the host": "frees address 0x",
}


def test_an_invalid_call_is_found_at_its_line(habits: Path) -> None:
    code, _, err = run(habits, *INVALID)
    places = {"MADE_D": "cudaMalloc(&d, 400)", "MADE_E": "cudaMalloc(&e, 400)", "FREED": "    cudaFree(e);"}
    for mode, message in INVALID.items():
        for name, text in places.items():
            message = message.replace(name, str(line(text)))
        at = line(f'"{mode}"')
        assert f"habits.cu:{at}: memcheck: {message}" in err.replace("tests/programs/", "")
    assert (code, err.count("api-error")) == (1, 0)


def test_correct_twins_have_no_finding(habits: Path) -> None:
    code, _, err = run(habits, "whole", "no leak", "launch, read", "used", options=("--sanitize", "leakcheck"))
    assert (code, err.splitlines()) == (0, ["kcheck: races were not checked; add --sanitize racecheck"])


def test_a_use_after_free_names_the_allocation_and_where_it_was_freed(habits: Path) -> None:
    code, _, err = run(habits, "after")
    assert code == 1
    assert f"(allocation 2, at tests/programs/habits.cu:{line('cudaMalloc(&e, 400)')})" in err
    assert f"that was freed at tests/programs/habits.cu:{line('    cudaFree(e);')}" in err


def test_an_error_that_the_program_does_not_read_is_a_warning(habits: Path) -> None:
    code, _, err = run(habits, "launch", "ignored")
    refused = "api-error in fill: the launch failed with cudaErrorInvalidConfiguration"
    ignored = "api-error: cudaMalloc returned cudaErrorMemoryAllocation"
    for mode, message in (("launch", refused), ("ignored", ignored)):
        at = line(f'"{mode}"')
        assert f"habits.cu:{at}: warning: {message}, and the program did not read it" in err
    assert code == 0


def test_memory_that_is_never_freed_is_found_if_asked(habits: Path) -> None:
    code, _, err = run(habits, "leak", options=("--sanitize", "leakcheck"))
    at = line('"leak"')
    assert f"habits.cu:{at}: leakcheck: managed memory of 1000 bytes (allocation 3, at " in err
    assert code == 1
    assert run(habits, "leak")[0] == 0
    assert run(habits, "leak", options=("--sanitize", "all"))[0] == 0


def test_without_debug_information_a_place_is_a_function(habits: Path, tmp_path: Path) -> None:
    subprocess.run(["objcopy", "--strip-debug", str(habits), str(tmp_path / "plain")], check=True)
    _, _, err = run(tmp_path / "plain", "copy")
    assert "(allocation 1, at main (plain+0x" in err
    assert "; the call is in main (plain+0x" in err
