"""A digest of everything that Numba freezes into a compiled kernel: the values of all globals and closure
variables that its function uses, the functions that it calls, and code that changes how Numba compiles. Two
functions with the same digest compile to the same kernel.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import os
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kcheck.cpu.temporary_names import portable, temporary_folders
from kcheck.interpreter import imported_since

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARIES = tuple(
    os.path.realpath(path) + os.sep
    for path in {*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")), _PACKAGE}
)
_INSTALLED = re.compile("/(?:site|dist)-packages/")
"""In the paths of libraries outside _LIBRARIES: of a user, of the system that a virtual environment extends."""
_KNOWN = frozenset({"numba", "numba_cuda", "numpy", "ml_dtypes", "cuda", *sys.stdlib_module_names})
"""Packages whose objects are identified by their name and the versions in the key."""
_VERSIONED = _KNOWN | {"kcheck"}
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, enum.Enum, types.EllipsisType)

_EXTENDS = re.compile(
    rb"extending|@overload|@intrinsic|@infer|@lower|imputils|register_(?:model|attr|global|jitable|default)|[Rr]egistry"
    rb"|typeof_impl|type_callable|infer_(?:global|getattr)|lower_(?:builtin|getattr|cast|constant|setattr)|lowering"
    rb"|make_attribute_wrapper|templates|compile_cuda|codegen|cudadrv|NUMBA_|numba[\w.]*\.config|import[^\n]*\bconfig\b"
)
"""In a file that registers functions or types with Numba, sets its options or patches it; harmless elsewhere."""
_OF_NUMBA = frozenset(
    {"numba", "cuda", "extending", "overload", "intrinsic", "register_model", "typeof_impl", "models"}
)
"""Names of Numba. A module of a library that extends Numba has at least one of them."""


class _Unknown(Exception):
    """A value that cannot be digested."""


def fingerprint(function: Callable[..., Any]) -> str | None:
    """A digest of a function's code and of everything that Numba would freeze into it, followed by the temporary
    folders of the files with the code; None if a value cannot be digested.

    Args:
        function: the Python function of a kernel.
    """
    digest = _Digest()
    for text in _extensions():
        digest(text)
    try:
        _walk_function(function, digest, {id(function)})
    except _Unknown:
        return None
    return digest.text()


class _Digest:
    """A digest that does not depend on the names of temporary folders: it has their numbers."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._folders: dict[str, None] = {}

    def __call__(self, content: bytes) -> None:
        """Add to the digest."""
        self._hash.update(content)

    def file(self, path: str) -> None:
        """Add the path of a file with code."""
        self._folders.update(dict.fromkeys(temporary_folders(path)))
        self._hash.update(portable(path, list(self._folders)).encode() + b"\0")

    def text(self) -> str:
        """The digest, and the folders in the order of their numbers, each with a slash at its end."""
        return " ".join([self._hash.hexdigest(), *(f"{folder}/" for folder in self._folders)])


def remember_modules() -> None:
    """Look at the modules of this process once for all processes that are forked from it: to look at a thousand
    modules copies their memory in each. All of them must be imported completely."""
    global _remembered
    _remembered = None
    _remembered = next(reversed(sys.modules)), *_classified(list(sys.modules.items()))


_remembered: tuple[str, dict[str, str], set[str]] | None = None
"""The last module that :func:`remember_modules` looked at, and what it found."""


def _extensions() -> Iterable[bytes]:
    """The code of imported modules that may change how Numba compiles, or its version."""
    own, foreign = _modules()
    for file in sorted(foreign):
        stamp = _stamp(file)
        if _extends(file, stamp):
            yield f"{file} {stamp}\0".encode()
    yield _counted(tuple((name, path, _stamp(path)) for name, path in own.items()))


@functools.lru_cache(maxsize=64)
def _counted(modules: tuple[tuple[str, str, tuple[int, int]], ...]) -> bytes:
    """A digest of :func:`sources_that_count` for modules with the stamps of their files."""
    digest = hashlib.blake2b(digest_size=16)
    for text in sources_that_count({name: path for name, path, _ in modules}):
        digest.update(text)
    return digest.digest()


_last: tuple[list[tuple[str, int, int]], dict[str, str], set[str]] = [], {}, set()
"""The modules of the last call of _modules, and what it found: classifying them takes longer than all else."""


def _modules() -> tuple[dict[str, str], set[str]]:
    """The imported modules outside libraries with their paths, and the files of libraries that use Numba."""
    global _last
    names = list(sys.modules) if _remembered is None else imported_since(_remembered[0])
    modules = [(name, sys.modules[name]) for name in names if name in sys.modules]
    # A module that is still being imported gets more attributes.
    state = [(name, id(module), len(getattr(module, "__dict__", ()))) for name, module in modules]
    if state != _last[0]:
        _last = state, *_classified(modules)
    _, own, foreign = _last
    return (own, foreign) if _remembered is None else (_remembered[1] | own, _remembered[2] | foreign)


def _classified(modules: Iterable[tuple[str, Any]]) -> tuple[dict[str, str], set[str]]:
    """The path of each module outside libraries, by name; the files of libraries that use Numba."""
    own, foreign = {}, set()
    for name, module in modules:
        file = getattr(module, "__file__", None) or ""
        if path := _own(file):
            own[name] = path
        elif file and _is_foreign(name) and _uses_numba(module):
            foreign.add(file)
    return own, foreign


@functools.lru_cache(maxsize=4096)
def _extends(path: str, stamp: tuple[int, int]) -> bool:
    return _EXTENDS.search(_text(path, stamp)) is not None


def _is_foreign(name: str) -> bool:
    """Whether a module is of a library whose version is not in the key."""
    return name.partition(".")[0] not in _VERSIONED


def _uses_numba(module: Any) -> bool:
    names = getattr(module, "__dict__", {})
    return any(_package(names[name]) in ("numba", "numba_cuda") for name in _OF_NUMBA.intersection(names))


def _package(value: Any) -> str:
    """The package of a module, class or function; empty for other values."""
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return name.partition(".")[0] if isinstance(name, str) else ""


def _stamp(path: str) -> tuple[int, int]:
    """The modification time in nanoseconds, and the size in bytes; zeros if there is no such file."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def sources_that_count(modules: Mapping[str, str]) -> Iterable[bytes]:
    """The files that may change how Numba compiles: those that extend it, and those that they may import. A kernel
    does not refer by name to the code that registers an overload.

    Other files do not matter. Which modules are imported differs between a run of one spec, a run of all, and
    worker processes, and depends on the tests that pytest is asked to run.

    Args:
        modules: the path of each module outside libraries, by name.
    """
    texts = {name: _text(path, _stamp(path)) for name, path in modules.items()}
    counted = set[str]()
    pending = [name for name, path in modules.items() if _extends(path, _stamp(path))]
    while pending:
        name = pending.pop()
        if name not in counted:
            counted.add(name)
            words = _words(texts[name])
            pending += [
                other
                for other in texts
                if name.startswith(other + ".") or other.rpartition(".")[2].encode() in words
            ]
    for path, text in sorted({modules[name]: texts[name] for name in counted}.items()):
        yield path.encode() + b"\0" + text


@functools.lru_cache(maxsize=4096)
def _text(path: str, stamp: tuple[int, int]) -> bytes:
    """A file's content, cached. A different stamp means a different version."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


@functools.lru_cache(maxsize=1024)
def _words(text: bytes) -> frozenset[bytes]:
    return frozenset(re.findall(rb"\w+", text))


@functools.cache
def _own(path: str) -> str:
    """The real path of a Python file outside the libraries; empty for any other file."""
    if not path.endswith(".py") or _is_installed(path):  # nearly all files: do not access the file system
        return ""
    real = os.path.realpath(path)
    return "" if _is_installed(real) else real


def _is_installed(path: str) -> bool:
    return path.startswith(_LIBRARIES) or _INSTALLED.search(path) is not None


def _walk(value: Any, tell: _Digest, seen: set[int]) -> None:
    """Digest everything about a value that compiled code may depend on. Raises _Unknown."""
    if isinstance(value, _PLAIN):
        tell(f"{type(value).__qualname__} {value!r}\0".encode())
        return
    if id(value) in seen:
        tell(b"again\0")
        return
    seen.add(id(value))
    python = getattr(value, "py_func", value)
    if isinstance(python, types.FunctionType) and not _is_known(python):
        if python is value and "<locals>" in python.__qualname__:
            raise _Unknown  # Numba calls what overloads it, which this does not see
        tell(f"function {getattr(value, 'targetoptions', None)!r}\0".encode())
        _walk_function(python, tell, seen)
    elif isinstance(value, np.ndarray) and value.dtype.hasobject is False:
        tell(f"array {value.dtype.descr!r} {value.shape} {value.strides}\0".encode() + value.tobytes())
    elif isinstance(value, tuple | list):
        tell(f"{type(value).__name__} {len(value)}\0".encode())
        for part in value:
            _walk(part, tell, seen)
    elif isinstance(value, slice | range):
        tell(f"{type(value).__name__}\0".encode())
        for part in (value.start, value.stop, value.step):
            _walk(part, tell, seen)
    elif _is_known(value):
        module = getattr(value, "__module__", None) or type(value).__module__
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or repr(value)
        tell(f"{module} {name}\0".encode())
    else:
        raise _Unknown


def _walk_function(function: Any, tell: _Digest, seen: set[int]) -> None:
    names: dict[str, None] = {}
    _walk_code(function.__code__, tell, names)
    _walk(function.__defaults__, tell, seen)
    for cell in function.__closure__ or ():
        _walk(cell.cell_contents, tell, seen)
    for name in names:
        value = function.__globals__.get(name, _Unknown)
        if value is _Unknown:  # an attribute or a builtin: a part of the object that has it
            continue
        tell(name.encode() + b"\0")
        _walk_global(value, names, tell, seen, ())


def _walk_global(value: Any, names: Iterable[str], tell: _Digest, seen: set[int], path: tuple[Any, ...]) -> None:
    """Digest a global value. For a module outside the libraries, digest the attributes that the code may use.

    Args:
        path: the modules through which the value was reached.
    """
    if not isinstance(value, types.ModuleType) or _is_known(value):
        _walk(value, tell, seen)
    elif value not in path:
        for name in names:
            if hasattr(value, name):
                tell(name.encode() + b"\0")
                _walk_global(getattr(value, name), names, tell, seen, (*path, value))


def _walk_code(code: types.CodeType, tell: _Digest, names: dict[str, None]) -> None:
    tell.file(code.co_filename)
    tell(f"{code.co_firstlineno} {code.co_varnames} {code.co_names}\0".encode())
    tell(code.co_code + code.co_linetable)
    names.update(dict.fromkeys(code.co_names))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _walk_code(constant, tell, names)
        else:
            tell(f"{constant!r}\0".encode())


def _is_known(value: Any) -> bool:
    """Whether a value belongs to a library whose version is in the key, and does not contain the user's values."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in _KNOWN
    if isinstance(value, types.FunctionType) and (value.__closure__ or ".tests." in f"{value.__module__}."):
        return False  # numba.cuda.reduce, for example, makes kernels around the user's function
    module = getattr(value, "__module__", None) if callable(value) else type(value).__module__
    return (isinstance(module, str) and module.partition(".")[0] in _KNOWN - {"builtins"}) or (
        isinstance(value, type | types.BuiltinFunctionType) and (module or "builtins") == "builtins"
    )
