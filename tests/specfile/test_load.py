"""The user's functions, loaded: the only place where a file of the user's is run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kcheck.errors import KernelError
from kcheck.model import Fault, FunctionRef, Span
from kcheck.specfile import load_function

loading = importlib.import_module("kcheck.specfile.load")


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Write a file and load a function of it; what was imported is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)

    def write_and_load(source: str, path: str = "kernels/k.py", name: str = "f") -> Any:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
        return load_function(str(tmp_path), FunctionRef(path, name, Span("specs/s.yaml")))

    yield write_and_load
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_the_function_itself_is_returned(load: Callable[..., Any]) -> None:
    """Called, it does what the file says."""
    assert load("def f(x): return x + 1\n")(1) == 2


def test_root_and_own_folder_can_be_imported_from(load: Callable[..., Any], tmp_path: Path) -> None:
    """A kernel may share code with its neighbors and with packages of the project."""
    (tmp_path / "shared_by_all.py").write_text("ONE = 1\n")
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/next_door.py").write_text("TWO = 2\n")
    source = "from shared_by_all import ONE\nfrom next_door import TWO\ndef f(): return ONE + TWO\n"
    assert load(source)() == 3


def test_a_file_runs_once(load: Callable[..., Any], tmp_path: Path) -> None:
    """Two functions of one file share its module, also when other code imports it by its own name."""
    source = "counter = []\ncounter.append(1)\ndef f(): return counter\ndef g(): return counter\n"
    assert load(source, "once_only.py") is not None
    f, g = load(source, "once_only.py"), load(source, "once_only.py", "g")
    assert f() is g()
    assert f() == [1]


def test_files_of_one_name_are_different_modules(load: Callable[..., Any]) -> None:
    """kernels/softmax.py and references/softmax.py do not shadow each other."""
    first = load("def f(): return 'kernel'\n", "kernels/softmax.py")
    second = load("def f(): return 'reference'\n", "references/softmax.py")
    assert (first(), second()) == ("kernel", "reference")


@pytest.mark.parametrize(
    ("source", "line", "what", "fix"),
    [
        ("def F(): pass\n", 1, "'f' is not defined in this file", "did you mean 'F'?"),
        ("f = 5\n", 1, "'f' is not a function, but a int", ""),
        ("x = 1\n1 / 0\n", 2, "importing this file raised ZeroDivisionError: division by zero", ""),
        ("def h():\n    raise OSError('a\\nb')\nh()\n", 2, "importing this file raised OSError: a", ""),
        (
            "import no_such\n",
            1,
            "importing this file raised ModuleNotFoundError: No module named 'no_such'",
            "install 'no_such', or put it into the project root",
        ),
        ("def f(:\n", 1, "this is not valid Python: invalid syntax", ""),
        (
            "import sys\nsys.exit(3)\n",
            2,
            "importing this file raised SystemExit: 3",
            "it must not exit when it is imported",
        ),
        ("raise Exception\n", 1, "importing this file raised Exception", ""),
    ],
)
def test_a_file_that_cannot_be_loaded_is_an_error_at_the_users_line(
    source: str, line: int, what: str, fix: str, load: Callable[..., Any]
) -> None:
    """The error has the user's file and line and the exception's text, and none of our own frames."""
    with pytest.raises(KernelError) as caught:
        load(source)
    assert caught.value.fault == Fault(Span("kernels/k.py", line), what, fix)


def test_an_interrupt_is_not_swallowed(load: Callable[..., Any]) -> None:
    """Ctrl-C while a file is imported ends the run."""
    with pytest.raises(KeyboardInterrupt):
        load("raise KeyboardInterrupt\n")


def test_a_failed_import_is_tried_again(load: Callable[..., Any]) -> None:
    """A broken file leaves nothing behind: fixed, it loads."""
    with pytest.raises(KernelError):
        load("1 / 0\n")
    assert load("def f(): return 1\n")() == 1


def test_user_code_that_a_watcher_has_not_imported_is_found(
    load: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round looks only among the modules that were imported after the watcher's own."""
    monkeypatch.setattr(loading, "_last_own", None)
    loading.no_user_code_yet()
    source = "import sys\ndef f(): return sys.modules['kernel_of_a_round']\n"
    (tmp_path / "kernel_of_a_round.py").write_text(source)
    own = load("import kernel_of_a_round\ndef f(): return kernel_of_a_round.f()\n", "reference.py")()
    assert load(source, "kernel_of_a_round.py")() is own
    assert load(source, "kernel_of_a_round.py").__globals__ is vars(own)
