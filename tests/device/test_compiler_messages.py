"""What does not compile is told in a sentence, at the line of the kernel that the compiler stopped at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNELS = """\
import numpy as np
from numba import cuda, types


def unknown_name(x):
    i = cuda.grid(1)
    if i < size:
        x[i] = 1


def wrong_types(x):
    i = cuda.grid(1)
    x[i] = 1
    x[i] = x[i] + "a"


def no_attribute(x):
    i = cuda.grid(1)
    x[i] = x.nothing


def no_function(x):
    i = cuda.grid(1)
    x[i] = np.linalg.norm(x)


@cuda.jit(device=True)
def below(x):
    return x + "b"


def in_a_device_function(x):
    i = cuda.grid(1)
    x[i] = below(x[i])
"""
CHILD = """
import json
from kcheck.device.cuda import compiler_message, compiler_place
import kernels
from numba import cuda, types
told = {}
for name in ("unknown_name", "wrong_types", "no_attribute", "no_function", "in_a_device_function"):
    try:
        cuda.compile(getattr(kernels, name), (types.float32[:],), cc=(8, 0))
    except Exception as error:
        place = compiler_place(error)
        told[name] = (compiler_message(error), place and (place.file, place.line))
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, tuple[str, int] | None]]:
    """By kernel: message, and file and line. In a process of its own: here numba.cuda is its simulator."""
    folder = tmp_path_factory.mktemp("compiler")
    (folder / "kernels.py").write_text(KERNELS)
    variables = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    variables.pop("NUMBA_ENABLE_CUDASIM", None)
    done = subprocess.run(
        [sys.executable, "-m", "kcheck", "exec", "--", sys.executable, "-c", CHILD],
        cwd=folder,
        env=variables,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("kernel", "line", "says"),
    [
        ("unknown_name", 7, "does not compile: TypingError: NameError: name 'size' is not defined"),
        (
            "wrong_types",
            14,
            "does not compile: TypingError: No implementation of function Function(<built-in function add>) "
            "found for signature: >>> add(float32, Literal[str](a))",
        ),
        ("no_attribute", 19, "does not compile: TypingError: Unknown attribute 'nothing' of type array("),
        ("no_function", 24, "does not compile: "),
        ("in_a_device_function", 29, "does not compile: "),
    ],
)
def test_it_names_the_line_and_says_it_shortly(told, kernel: str, line: int, says: str) -> None:
    """The place is in the user's file; candidates, addresses and Numba's own files are left out."""
    message, place = told[kernel]
    assert place is not None
    assert (Path(place[0]).name, place[1]) == ("kernels.py", line), (message, place)
    assert message.startswith(says)
    assert "candidate" not in message
    assert "source elided" not in message
    assert "cuda.grid" not in message
    assert " at 0x" not in message
