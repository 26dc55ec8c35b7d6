"""What ``make monitor-readme`` does with the texts that it runs: only their import changes."""

from __future__ import annotations

from typing import Any

import pytest
import verifier_readme

PROGRAM = """\
from cuda_kernel_verifier import (
    equivalent,
)

@equivalent(lambda x: x, rtol=1e-1)
def my_copy(x):
    y = my_kernel(x)
    return y
"""


def test_only_the_name_of_the_module_changes() -> None:
    found = verifier_readme.changed(PROGRAM)
    assert found == PROGRAM.replace("from cuda_kernel_verifier import", "from kcheck.monitor import")


@pytest.mark.parametrize("program", ["import torch\n", PROGRAM + "cuda_kernel_verifier.stop()\n"])
def test_a_program_without_one_import_is_refused(program: str) -> None:
    with pytest.raises(ValueError, match="by one import"):
        verifier_readme.changed(program)


def test_the_names_that_are_left_to_the_reader() -> None:
    assert verifier_readme.undefined(PROGRAM, set()) == {"my_kernel"}
    assert verifier_readme.undefined(PROGRAM, {"my_kernel"}) == set()


def test_each_block_has_its_heading() -> None:
    page = "# A\n\n## Quick start\n\n```python\nx = 1\n```\n\n"
    page += "### Of `forward`\n\n```bash\nls\n```\n\n```python\ny = 2\n```\n"
    assert verifier_readme.headed_blocks(page) == [("Quick start", 6, "x = 1\n"), ("Of forward", 16, "y = 2\n")]


ROW = {"program": "Quick start", "calls": 2, "checked": 1, "mismatches": 0, "errors": 0, "raised": ""}
WRONG = {**ROW, "mismatches": 1, "raised": "Kernel diverged!"}


def test_the_table_of_what_ran() -> None:
    text = verifier_readme.table([ROW], [WRONG])
    assert text.splitlines()[-1] == "| Quick start | 2 | 1 | 0 | raises: Kernel diverged! |"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ({**ROW, "checked": 0}, WRONG),
        ({**ROW, "errors": 1}, WRONG),
        ({**ROW, "checked": 2, "mismatches": 1}, WRONG),
        ({**ROW, "raised": "Kernel diverged!"}, WRONG),
        (ROW, {**WRONG, "mismatches": 0}),
        (ROW, {**WRONG, "raised": ""}),
    ],
    ids=["nothing checked", "an error", "invented", "raised", "missed", "not told"],
)
def test_what_is_not_as_it_should_be_ends_the_target(right: dict[str, Any], wrong: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        verifier_readme.table([right], [wrong])
