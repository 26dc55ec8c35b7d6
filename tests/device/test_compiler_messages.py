"""What does not compile is told in a sentence, at the line of the kernel that the compiler stopped at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcheck.driver.compile_errors import RefusedBefore, explain, refuse_once

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


def sorts(x):
    x[0] = np.sort(x)[0]


def sorts_in_a_library(x):
    x[0] = sorted(x)[0]


def indexes_a_scalar(x):
    n = x.size
    x[0] = n[0]


def shape_of_a_scalar(x):
    n = x.size
    x[0] = n.shape[0]


def appends_to_a_list(x):
    kept = []
    kept.append(x[0])
    x[0] = kept[0]


def shape_of_two_terms(x):
    tile = cuda.shared.array(BLOCK + 2, np.float32)
    tile[0] = x[0]


def shape_that_varies(x):
    tile = cuda.local.array(x.shape[0], np.float32)
    tile[0] = x[0]


def array_as_condition(x):
    if x > 0:
        x[0] = 1


def numpy_square_root(x):
    i = cuda.grid(1)
    x[i] = np.sqrt(x[i])


def numpy_sign(x):
    i = cuda.grid(1)
    x[i] = np.sign(x[i])


@cuda.jit(device=True)
def below(x):
    return x + "b"


def in_a_device_function(x):
    i = cuda.grid(1)
    x[i] = below(x[i])


BLOCK = 64
"""
LINE = {line[4:].partition("(")[0]: n for n, line in enumerate(KERNELS.splitlines(), 1) if line.startswith("def ")}
CHILD = """
import json, sys
from kcheck.driver.compile_errors import RefusedBefore, explain, refuse_once
import kernels
from numba import cuda, types
told = {}
for name in sys.argv[1:]:
    try:
        cuda.compile(getattr(kernels, name), (types.float32[:],), cc=(8, 0))
    except Exception as error:
        why = explain(error)
        told[name] = (why.message, why.place and (why.place.file, why.place.line), why.fix)
print(json.dumps(told))
"""


ROWS = [
    # kernel, line, how the message begins, what the fix says
    ("unknown_name", 7, "does not compile: TypingError: NameError: name 'size' is not defined", ""),
    (
        "wrong_types",
        14,
        "does not compile: TypingError: No implementation of function Function(<built-in function add>) "
        "found for signature: >>> add(float32, Literal[str](a))",
        "",
    ),
    ("no_attribute", 19, "does not compile: TypingError: Unknown attribute 'nothing' of type array(", ""),
    (
        "no_function",
        24,
        "does not compile: np.linalg.norm(float32[:]) is not supported in CUDA kernels",
        "loop over",
    ),
    ("in_a_device_function", LINE["below"] + 1, "does not compile: ", ""),
    (
        "sorts",
        LINE["sorts"] + 1,
        "does not compile: np.sort(float32[:]) is not supported in CUDA kernels",
        "write the sort as a loop",
    ),
    (
        "sorts_in_a_library",
        LINE["sorts_in_a_library"] + 1,
        "does not compile: sorted(float32[:]) is not",
        "write the sort as a loop",
    ),
    (
        "indexes_a_scalar",
        LINE["indexes_a_scalar"] + 2,
        "does not compile: n is used as an array, but it is a scalar (int64)",
        "pass an array for n",
    ),
    (
        "shape_of_a_scalar",
        LINE["shape_of_a_scalar"] + 2,
        "does not compile: n is used as an array, but it is a scalar (int64)",
        "pass an array for n",
    ),
    *(
        (
            name,
            LINE[name] + 1,
            f"does not compile: the shape of cuda.{space}.array is not a constant",
            "compute the size outside the kernel",
        )
        for name, space in (("shape_of_two_terms", "shared"), ("shape_that_varies", "local"))
    ),
    (
        "appends_to_a_list",
        LINE["appends_to_a_list"] + 2,
        "does not compile: kept is a list, which is not supported in CUDA kernels",
        "use cuda.local.array",
    ),
    (
        "numpy_square_root",
        LINE["numpy_square_root"] + 2,
        "does not compile: np.sqrt is not supported in CUDA kernels",
        "write math.sqrt",
    ),
    (
        "numpy_sign",
        LINE["numpy_sign"] + 2,
        "does not compile: np.sign is not supported in CUDA kernels",
        "write it with operators, if, or functions of math",
    ),
    (
        "array_as_condition",
        LINE["array_as_condition"] + 1,
        "does not compile: x is used as a scalar, but it is an array",
        "index it, as in x[i]",
    ),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, tuple[str, int] | None, str]]:
    """By kernel: message, file and line, fix. In a process of its own: here numba.cuda is its simulator."""
    folder = tmp_path_factory.mktemp("compiler")
    (folder / "kernels.py").write_text(KERNELS)
    variables = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    variables.pop("NUMBA_ENABLE_CUDASIM", None)
    done = subprocess.run(
        [sys.executable, "-m", "kcheck", "exec", "--", sys.executable, "-c", CHILD, *(name for name, *_ in ROWS)],
        cwd=folder,
        env=variables,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(("kernel", "line", "says", "fix"), ROWS)
def test_a_compiler_message_is_short_and_names_the_line(told, kernel: str, line: int, says: str, fix: str) -> None:
    """The place is in the user's file; candidates, addresses and Numba's own files are left out."""
    message, place, fixed_by = told[kernel]
    assert place is not None
    assert (Path(place[0]).name, place[1]) == ("kernels.py", line), (message, place)
    assert message.startswith(says)
    assert fix in fixed_by
    assert "candidate" not in message
    assert "source elided" not in message
    assert "cuda.grid" not in message
    assert " at 0x" not in message


def test_a_kernel_that_returns_a_value_is_told_in_plain_words() -> None:
    """Numba speaks of a conversion to its type of None."""
    why = explain(Exception("No conversion from float32 to none for '$80return_value.3', defined at None"))
    assert why.message == "does not compile: the kernel returns a value"
    assert why.fix == "write the result to an array argument"


def test_a_numpy_that_is_too_new_is_told_with_the_version_to_install() -> None:
    """numba-cuda 0.30 with NumPy 2.5, at the first kernel that it compiles."""
    why = explain(AttributeError("module 'numpy' has no attribute 'row_stack'"))
    assert why.message.startswith("numba-cuda does not work with this version of NumPy: ")
    assert why.fix == "pip install 'numpy<2.5'"


class NumbaError(Exception):
    """Named as the base of Numba's errors."""


def test_a_kernel_that_does_not_compile_is_compiled_once() -> None:
    """The compiler's reason is the same at every later launch with these types; other types are compiled. An error
    that is not about the code, such as a lack of memory, is tried again."""
    tried = []

    class Dispatcher:
        def compile(self, signature: tuple[str, ...]) -> str:
            tried.append(signature)
            if signature == ("int64",):
                return "compiled"
            raise MemoryError if signature == ("large",) else NumbaError("cannot unify types")

    refuse_once(Dispatcher)
    one, other = Dispatcher(), Dispatcher()
    with pytest.raises(NumbaError) as first:
        one.compile(("str",))
    with pytest.raises(RefusedBefore) as second:
        one.compile(("str",))
    assert explain(second.value) == explain(first.value)
    with pytest.raises(NumbaError):
        other.compile(("str",))
    for _ in range(2):
        with pytest.raises(MemoryError):
            one.compile(("large",))
    assert one.compile(("int64",)) == "compiled"
    assert tried == [("str",), ("str",), ("large",), ("large",), ("int64",)]
