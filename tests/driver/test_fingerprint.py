"""When a compiled kernel is still good: everything that Numba froze into it is in the fingerprint."""

from __future__ import annotations

import importlib.util
import itertools
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kcheck.driver import fingerprint as fingerprints
from kcheck.driver.fingerprint import fingerprint, remember_modules, sources_that_count

KERNEL = """
import math
import numpy as np
import side

SCALE = 2
TABLE = np.array([1.0, 2.0])
NAMES = ("a", 1)

def inner(x):
    return x * SCALE

def outer(x, bias=0.5):
    def nested(z):
        return z + 1
    return inner(x) + math.sqrt(x) + TABLE[0] + side.WIDTH + len(NAMES) + nested(bias)
"""
SIDE = "WIDTH = 32\nHEIGHT = 8\n"
_names = itertools.count()


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load the kernel's module, with a change, from the same file each time."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def loaded(text, side=SIDE):
        (tmp_path / "kernel.py").write_text(text)
        (tmp_path / "side.py").write_text(side)
        for name in ("side", "kernel_under_test"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode = True
        spec = importlib.util.spec_from_file_location("kernel_under_test", tmp_path / "kernel.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield loaded
    for name in ("side", "kernel_under_test"):
        sys.modules.pop(name, None)


def test_the_same_code_has_the_same_fingerprint(load):
    """Loaded twice it is the same."""
    first, second = load(KERNEL), load(KERNEL)
    assert fingerprint(first.outer) == fingerprint(second.outer) is not None


CHANGES = [
    ("SCALE = 2", "SCALE = 3"),
    ("[1.0, 2.0]", "[1.0, 2.5]"),
    ('("a", 1)', '("a", 2)'),
    ("x * SCALE", "x + SCALE"),
    ("z + 1", "z + 2"),
    ("bias=0.5", "bias=0.25"),
    ("math.sqrt", "math.exp"),
]


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_a_change_of_what_is_frozen_shows(load, old, new):
    """Globals, arrays, tuples, functions called, nested functions, defaults, library functions."""
    before = fingerprint(load(KERNEL).outer)
    assert KERNEL.count(old) == 1
    assert fingerprint(load(KERNEL.replace(old, new)).outer) != before


def test_a_value_that_changes_without_its_source_shows(load):
    """A global that is computed at import, from the environment say, counts by its value."""
    module = load(KERNEL)
    before = fingerprint(module.outer)
    module.SCALE = 5
    assert fingerprint(module.outer) != before
    module.SCALE = 2
    assert fingerprint(module.outer) == before
    sys.modules["side"].WIDTH = 64
    assert fingerprint(module.outer) != before


def test_a_value_in_a_module_that_another_module_imports_shows(load):
    """``outer_module.side.WIDTH``, also if the modules import each other."""
    module = load(
        KERNEL.replace("side.WIDTH", "package.side.WIDTH").replace("import side", "import side as package")
    )
    sys.modules["side"].package = sys.modules["side"].side = sys.modules["side"]
    before = fingerprint(module.outer)
    assert before is not None
    sys.modules["side"].WIDTH = 64
    assert fingerprint(module.outer) != before


def test_what_cannot_be_told_apart_is_not_kept(load):
    """An object of the user's own class has no fingerprint."""
    module = load(KERNEL)
    module.SCALE = type("Own", (), {})()
    assert fingerprint(module.outer) is None


def test_a_closure_that_a_library_makes_around_a_function_of_the_user_shows():
    """``numba.cuda.reduce`` makes its kernels so: they are the library's by their name."""

    def around(function):
        def kernel(x):
            return function(x)

        kernel.__module__ = "numba.cuda.kernels.reduction"
        return kernel

    def plus(x):
        return x + 1

    def minus(x):
        return x - 1

    compiled = [SimpleNamespace(py_func=function, targetoptions={}) for function in (plus, minus, plus)]
    made = [fingerprint(around(function)) for function in compiled]
    assert made[0] == made[2] is not None
    assert made[0] != made[1]


def test_a_function_that_is_made_at_run_time_is_not_kept_if_it_is_not_compiled_itself():
    """Numba compiles what overloads it instead, and nothing says which of several overloads that is."""

    def stub(x):
        pass

    def kernel(x):
        return stub(x)

    assert fingerprint(kernel) is None


def test_numpy_and_math_are_told_by_their_names():
    """What a library has is told by its name and the version in the key."""

    def kernel(x):
        return np.float32(math.pi) * np.sin(x)

    assert fingerprint(kernel) is not None


def test_only_modules_that_extend_numba_count_with_what_they_may_import(tmp_path):
    """Kernels and references of other specs do not: a run of one spec, and a worker that has imported others, find
    what a run of all specs compiled. Code that registers overloads does, with whatever it may import from."""
    texts = {
        "kernels": "from numba import cuda\n\n@cuda.jit\ndef double(x):\n    x[0] *= 2\n",
        "reference": "import numpy as np\n\ndef double(x):\n    return 2 * x\n",
        "pack": "WIDTH = 3\n",
        "pack.extension": "from numba.extending import overload\nfrom . import WIDTH\nfrom .constants import *\n",
        "pack.constants": "from limits import X\n",
        "limits": "X = 4\n",
    }
    modules = {}
    for name, text in texts.items():
        modules[name] = str(tmp_path / f"{name}.py")
        Path(modules[name]).write_text(text)
    harmless = {name: modules[name] for name in ("kernels", "reference", "limits")}
    assert list(sources_that_count(harmless | {"gone": str(tmp_path / "gone.py")})) == []
    counted = list(sources_that_count(modules))
    assert counted == list(sources_that_count(dict(reversed(modules.items()))))
    expected = {modules[name]: texts[name] for name in ("pack", "pack.extension", "pack.constants", "limits")}
    assert dict(entry.decode().split("\0") for entry in counted) == expected


def test_a_file_that_changes_while_the_process_runs_is_read_again(tmp_path):
    """As under --watch."""
    path = tmp_path / "extension.py"
    path.write_text("from numba.cuda.extending import overload\nX = 1\n")
    before = list(sources_that_count({"extension": str(path)}))
    path.write_text("from numba.cuda.extending import overload\nX = 12\n")
    assert list(sources_that_count({"extension": str(path)})) != before


def test_remembered_modules_count_like_others(load, tmp_path, monkeypatch):
    """Of those imported before and after, an edit of one that extends Numba changes the fingerprint."""
    (tmp_path / "before.py").write_text("from numba.extending import overload\n")
    (tmp_path / "after.py").write_text("from numba.extending import intrinsic\n")
    kernel = load(KERNEL).outer
    importlib.import_module("before")
    monkeypatch.setattr(fingerprints, "_remembered", None)
    try:
        before = fingerprint(kernel)
        remember_modules()
        assert fingerprint(kernel) == before
        importlib.import_module("after")
        both = fingerprint(kernel)
        monkeypatch.setattr(fingerprints, "_remembered", None)
        assert fingerprint(kernel) == both != before
        for name in ("before", "after"):
            remember_modules()
            (tmp_path / f"{name}.py").write_text(f"from numba.extending import overload  # {name}, edited\n")
            edited = fingerprint(kernel)
            monkeypatch.setattr(fingerprints, "_remembered", None)
            assert fingerprint(kernel) == edited
            assert edited not in (both, before)
            both = edited
    finally:
        for name in ("before", "after"):
            sys.modules.pop(name, None)


def test_code_that_extends_numba_shows_when_it_is_imported_changed_and_removed(load, tmp_path):
    """The modules are classified once, until others are imported; the text of their files counts each time."""
    module = load(KERNEL)
    before = fingerprint(module.outer)
    file = tmp_path / "extension_under_test.py"
    file.write_text("from numba.extending import overload\n")
    spec = importlib.util.spec_from_file_location("extension_under_test", file)
    try:
        sys.modules["extension_under_test"] = importlib.util.module_from_spec(spec)
        with_extension = fingerprint(module.outer)
        assert with_extension not in (before, None)
        file.write_text("from numba.extending import overload, intrinsic\n")
        assert fingerprint(module.outer) not in (before, with_extension)
    finally:
        del sys.modules["extension_under_test"]
    assert fingerprint(module.outer) == before


def test_libraries_of_another_folder_are_libraries(load, tmp_path):
    """Such as those of a user, or of the system under a virtual environment: their texts do not count, only the
    versions of those that extend Numba."""
    module = load(KERNEL)
    before = fingerprint(module.outer)
    file = tmp_path / "lib" / "site-packages" / "library_under_test.py"
    file.parent.mkdir(parents=True)
    file.write_text("from numba.extending import overload\n")
    spec = importlib.util.spec_from_file_location("library_under_test", file)
    library = importlib.util.module_from_spec(spec)
    try:
        sys.modules["library_under_test"] = library
        assert fingerprint(module.outer) == before  # it has not imported Numba
        spec.loader.exec_module(library)
        extended = fingerprint(module.outer)
        assert extended not in (before, None)
        file.write_text("from numba.extending import overload, intrinsic\n")
        assert fingerprint(module.outer) not in (before, extended)
    finally:
        del sys.modules["library_under_test"]


@pytest.mark.parametrize("made", [slice, range])
def test_slices_and_ranges_in_closures_show(made):
    """Generated kernels have slices of their shared memory as closure variables."""

    def around(part):
        def kernel(x):
            return x[part]

        return kernel

    found = [fingerprint(around(part)) for part in (made(0, 4, 1), made(0, 4, 1), made(0, 8, 1), made(0, 4, 2))]
    assert found[0] == found[1] is not None
    assert len(set(found)) == 3
    assert fingerprint(around(slice(object(), 4))) is None
