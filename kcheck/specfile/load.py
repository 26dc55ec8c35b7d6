"""Import the files that specs name: kernels, launchers, references, generators. No other module does."""

from __future__ import annotations

import functools
import importlib.util
import sys
import traceback
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from kcheck.errors import KernelError
from kcheck.interpreter import imported_since
from kcheck.model import FunctionRef
from kcheck.nearest import did_you_mean
from kcheck.span import Span
from kcheck.specfile.paths import shown

_modules: dict[str, ModuleType] = {}
_roots: dict[str, str] = {}  # the project roots, by the same paths


def loaded_files() -> list[tuple[str, str]]:
    """(root, path) of every file that was imported, in order."""
    return [(root, path) for path, root in _roots.items()]


def load_file(root: str, path: str) -> None:
    """Import a file as :func:`load_function` does.

    Raises:
        KernelError: the file cannot be imported.
    """
    _module(Path(path), root)


def load_function(spec_root: str, function: FunctionRef) -> Callable[..., Any]:
    """The function object that a spec names, importing its file the first time.

    Adds the project root and the file's folder to ``sys.path``, permanently. Each file is imported once, even if
    specs name several of its functions.

    Args:
        spec_root: the project root, absolute.

    Raises:
        KernelError: the file cannot be imported, or does not define the function.
    """
    if function.given is not None:
        return function.given
    path = Path(spec_root) / function.path
    module = _module(path, spec_root)
    found = getattr(module, function.name, None)
    if found is None:
        fix = did_you_mean(function.name, vars(module)) or "define it at the top level of the file"
        raise KernelError(Span(shown(path)), f"{function.name!r} is not defined in this file", fix)
    if not callable(found) and not hasattr(found, "run"):  # an autotuned Triton kernel is called by run()
        what = f"{function.name!r} is not a function, but a {type(found).__name__}"
        raise KernelError(Span(shown(path)), what)
    callable_object: Callable[..., Any] = found
    return callable_object


@functools.cache
def _real(path: Path) -> str:
    """A path with its links resolved. Cached, because every launch needs it."""
    return str(path.resolve())


def _module(path: Path, root: str) -> ModuleType:
    key = _real(path)
    if key in _modules:
        return _modules[key]
    # The root goes to the front, so that a file in a folder does not hide a package of the same name in the root.
    for folder in (str(path.resolve().parent), str(Path(root).resolve())):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    already = _imported_before(key)
    if already is not None:
        _modules[key], _roots[key] = already, root
        return already
    # Files with the same name (kernels/softmax.py, references/softmax.py) must become different modules.
    name = f"_kcheck_{path.stem}_{blake2b(key.encode(), digest_size=4).hexdigest()}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise KernelError(Span(shown(path)), "this file cannot be imported", "name a .py file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except (KeyboardInterrupt, MemoryError):
        del sys.modules[name]
        raise
    except BaseException as error:  # SystemExit too: a script without a main guard must not end kcheck
        del sys.modules[name]
        raise _import_failed(error, path) from error
    _modules[key], _roots[key] = module, root
    return module


_last_own: str | None = None
"""The last of the modules in which :func:`_imported_before` does not have to look; None: it must look in all."""


def no_user_code_yet() -> None:
    """Record that no module of this process is the user's, for processes that are forked from it."""
    global _last_own
    _last_own = next(reversed(sys.modules))


def _imported_before(key: str) -> ModuleType | None:
    """The module of this file if other user code has already imported it; None otherwise."""
    if _last_own is None:
        modules = list(sys.modules.values())
    else:
        modules = [sys.modules[name] for name in imported_since(_last_own)]
    for module in modules:
        if getattr(module, "__file__", None) == key and not getattr(
            getattr(module, "__spec__", None), "_initializing", False
        ):
            return module
    return None


def _import_failed(error: BaseException, path: Path) -> KernelError:
    """The error for an exception during the import of a file, at the innermost line in that file."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        place = Span(shown(Path(error.filename)), error.lineno or 1)
        return KernelError(place, f"this is not valid Python: {error.msg}")
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    place = Span(shown(path), (ours[-1].lineno if ours else None) or 1)
    fix = ""
    if isinstance(error, ModuleNotFoundError):
        fix = f"install {error.name!r}, or put it into the project root"
    elif isinstance(error, SystemExit):
        fix = "it must not exit when it is imported"
    return KernelError(place, f"importing this file raised {what.splitlines()[0]}", fix)
