"""What the shell completes, and how completion is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_project import Kcheck

from kcheck.cli.main import main

PROBE = """\
import sys
from kcheck.__main__ import main
try:
    main([])
finally:
    print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def completed(kcheck: Kcheck, words: str) -> tuple[list[str], set[str]]:
    """What bash is offered for the last word of a command line, and what was imported to find it."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        cwd=kcheck.folder,
        env={
            **kcheck.environment,
            "_KCHECK_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        },
        capture_output=True,
        text=True,
    )
    lines = [line for line in done.stdout.splitlines() if line]
    return [line.partition(",")[2] for line in lines], set(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("kcheck val", ["validate"]),
        ("kcheck run specs/g", ["specs/good.yaml"]),
        ("kcheck run --sanit", ["--sanitize"]),
        ("kcheck run --sanitize race", ["racecheck"]),
        ("kcheck run --profile night", ["nightly"]),
        ("kcheck reproduce 1 --op g", ["good"]),
        ("kcheck diff v", ["v1", "v2"]),
    ],
)
def test_words_are_completed(kcheck: Kcheck, project: Path, words: str, expected: list[str]) -> None:
    """From the project's own files, without importing numba."""
    (project / "baselines").mkdir()
    for name in ("v1", "v2"):
        (project / f"baselines/{name}.json").write_text("{}")
    found, modules = completed(kcheck, words)
    assert found == expected
    assert modules.isdisjoint({"numba", "llvmlite", "rich", "cuda"})


def test_seeds_of_open_failures_are_completed(kcheck: Kcheck) -> None:
    """Where a command takes a seed."""
    stored = {"KCHECK_STORE": "on"}
    assert kcheck("run", "--device", "simulator", "specs/buggy/bad.yaml", **stored).returncode == 1
    for words in ("kcheck show --seed ", "kcheck minimize --seed "):
        found, modules = completed(kcheck, words)
        assert len(found) == 2
        assert all(seed.isdigit() for seed in found)
        assert modules.isdisjoint({"numba", "llvmlite"})


def test_names_of_open_failures_are_completed(kcheck: Kcheck) -> None:
    """``last``, then short ids, then seeds; an id from its first letter."""
    stored = {"KCHECK_STORE": "on"}
    assert kcheck("run", "--device", "simulator", "specs/buggy/bad.yaml", **stored).returncode == 1
    last, one, other, *seeds = completed(kcheck, "kcheck reproduce ")[0]
    assert last == "last"
    assert re.fullmatch("[k-z]+", one)
    assert re.fullmatch("[k-z]+", other)
    assert len(seeds) == 2
    assert one in completed(kcheck, f"kcheck show {one[0]}")[0]


def test_only_files_are_offered_outside_a_project(kcheck: Kcheck, tmp_path: Path) -> None:
    """The word is left to the shell's file completion, and no message breaks the line that is being typed."""
    kcheck.folder = tmp_path
    assert completed(kcheck, "kcheck reproduce --op x")[0] == []
    assert completed(kcheck, "kcheck show 1")[0] == ["1"]


def test_completion_says_how_to_install_it(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each shell, within 80 columns."""
    assert main(["completion"]) == 0
    said = capsys.readouterr().out
    for shell in ("bash", "zsh", "fish"):
        assert f"kcheck completion {shell}" in said
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    """It is a script that the shell accepts, where the shell is installed."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_KCHECK_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
