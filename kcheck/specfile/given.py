"""Specs from Python values: the tree that the same spec would have as YAML, and the functions in it.

Python has values that YAML does not have: functions, ``range`` objects, dtypes. Each becomes what a spec would
write instead; a function becomes a text that represents it until the spec is built.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kcheck.errors import SpecError
from kcheck.model import DTYPES, Fault, FunctionRef, Span
from kcheck.specfile.pythonfile import KeywordSignature, PythonDefinition
from kcheck.specfile.yamltree import YamlEntry, YamlList, YamlMap, YamlNode, YamlScalar


def as_tree(
    keys: Mapping[str, Any], place: Span, places: Mapping[str, Span] | None = None
) -> tuple[YamlMap, dict[str, Callable[..., Any]]]:
    """The tree of a spec that is given as Python values.

    Args:
        keys: as in a YAML file. A dim may be a ``range`` (the end is exclusive, as always in Python), a dtype any
            object that names one (``np.float32``, ``torch.float16``), and ``kernel``, ``reference`` and so on a
            function.
        place: the place of every node, for messages.
        places: more exact places of top-level keys and the nodes below them, if they are known.

    Returns:
        The tree, and the functions by the text that represents each in the tree.

    Raises:
        SpecError: a spec cannot have one of the values.
    """
    given: dict[str, Callable[..., Any]] = {}
    entries: dict[str, YamlEntry] = {}
    for key, value in keys.items():
        where = (places or {}).get(key, place)
        entries[key] = YamlEntry(key, where, _node(value, where, key, given))
    return YamlMap(place, entries), given


BUILTIN_DTYPES = {"bool": "bool", "int": "int64", "float": "float64", "complex": "complex128"}
"""The dtypes that Python's own types stand for, as in NumPy."""


def _node(value: Any, place: Span, where: str, given: dict[str, Callable[..., Any]]) -> YamlNode:
    if value is None or isinstance(value, bool | int | float | str):
        return YamlScalar(place, value, "null" if value is None else str(value), None)
    if isinstance(value, Mapping):
        entries = {
            str(key): YamlEntry(str(key), place, _node(item, place, f"{where}.{key}".lstrip("."), given))
            for key, item in value.items()
        }
        return YamlMap(place, entries)
    if isinstance(value, range):
        return range_node(value, place, where)
    if isinstance(value, list | tuple):
        items = (_node(item, place, f"{where}[{number}]", given) for number, item in enumerate(value))
        return YamlList(place, tuple(items))
    if (dtype := dtype_name(value)) is not None:
        return YamlScalar(place, dtype, dtype, None)
    if callable(value):
        text = f"<{len(given)}>.py:{_name(value)}"
        given[text] = value
        return YamlScalar(place, text, text, None)
    what = f"{where}: a {type(value).__name__} cannot be part of a spec"
    raise SpecError([Fault(place, what, "use numbers, strings, lists, dicts, ranges, dtypes or functions")])


def range_node(value: range, place: Span, where: str) -> YamlNode:
    """A range of sizes as ``low..high``, both inclusive; with a step, as the list of its sizes.

    Raises:
        SpecError: it is empty or descending, or it has a step and too many sizes.
    """
    if len(value) == 0 or value.step < 0 or (len(value) > 1024 and value.step > 1):
        what = f"{where}: {value!r} is not a range of sizes"
        raise SpecError([Fault(place, what, "use an ascending range, such as range(1, 65)")])
    if value.step > 1:
        return YamlList(place, tuple(YamlScalar(place, size, str(size), None) for size in value))
    text = f"{value[0]}..{value[-1]}"
    return YamlScalar(place, text, text, None)


def dtype_name(value: Any) -> str | None:
    """The name of a dtype of any framework, as in DTYPES; None if it is not a dtype.

    ``np.float32``, ``np.dtype("float32")``, ``torch.float32``, ``jnp.float32`` and ``tf.float32`` are ``float32``.
    """
    if isinstance(value, str):
        return value if value in DTYPES else None
    if value in (bool, int, float, complex):
        return BUILTIN_DTYPES[value.__name__]
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    if getattr(type(value), "__module__", "") == "torch":
        name = str(value).removeprefix("torch.")
    name = getattr(getattr(value, "dtype", None), "name", None) or name  # jnp.float32 is a function with a dtype
    return name if isinstance(name, str) and name in DTYPES else None


def _name(function: Callable[..., Any]) -> str:
    name = str(getattr(function, "__name__", type(function).__name__))
    return name if name.isidentifier() and name.isascii() else "function"


def given_function(function: Callable[..., Any], root: Path, span: Span) -> tuple[FunctionRef, PythonDefinition]:
    """A reference to a function object, for a spec that is built in Python,
    and the definition that parsing its file would find."""
    inner = plain_function(function)
    code = getattr(inner, "__code__", None)
    file = code.co_filename if code is not None else span.file
    path = Path(os.path.realpath(file))
    if path.is_relative_to(root.resolve()):
        file = path.relative_to(root.resolve()).as_posix()
    line = code.co_firstlineno if code is not None else span.line
    place = Span(span.file, span.line, span.column)
    return FunctionRef(file, _name(function), place, function), PythonDefinition(
        _name(function), line, _signature(inner)
    )


def is_compiled(function: object) -> bool:
    """Whether a Python object is a kernel of numba.cuda or Triton."""
    module = type(function).__module__
    return module.startswith("triton.runtime") or (
        module.startswith("numba.cuda") and hasattr(function, "py_func")
    )


def plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function behind the object that a compiler or a framework made from it, for its signature and
    place: of a ``@cuda.jit`` kernel, of a ``torch.nn.Module`` (its ``forward``)."""
    if not inspect.isroutine(function) and inspect.isroutine(getattr(function, "forward", None)):
        function = function.forward  # type: ignore[attr-defined]
    inner: Callable[..., Any] = inspect.unwrap(getattr(function, "py_func", function))
    return inner


def _signature(function: Callable[..., Any]) -> KeywordSignature | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = inspect.Parameter
    by_keyword = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    named = [parameter for parameter in parameters if parameter.kind in by_keyword]
    starred = any(parameter.kind is kinds.VAR_POSITIONAL for parameter in parameters)
    return KeywordSignature(
        tuple(parameter.name for parameter in named if parameter.default is kinds.empty),
        tuple(parameter.name for parameter in named if parameter.default is not kinds.empty),
        None if starred else sum(parameter.kind is not kinds.KEYWORD_ONLY for parameter in named),
        any(parameter.kind is kinds.VAR_KEYWORD for parameter in parameters),
        tuple(parameter.name for parameter in named if parameter.kind is kinds.POSITIONAL_ONLY),
    )
