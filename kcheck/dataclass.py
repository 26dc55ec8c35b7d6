"""``dataclasses.dataclass`` whose methods are written when they are first called.

The standard decorator compiles up to six methods for each class. A short run imports hundreds of such classes and
creates instances of a few. These classes have the same fields and methods, and work
with ``dataclasses.replace``, ``fields``, ``asdict``, ``copy`` and ``pickle``. A type checker sees the standard
decorator.

Classes that users create (of ``kcheck.api``, ``kcheck.monitor`` and ``kcheck.compat``) have the standard one, so
that ``help`` shows their arguments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["compile_methods", "dataclass"]

_Method = Callable[..., Any]

_waiting: dict[Any, bool] = {}
"""The classes whose ``__init__`` is not compiled yet, and whether they are frozen."""

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        eq: bool = True,
        order: bool = False,
        slots: bool = False,
        kw_only: bool = False,
    ) -> Any:
        """The standard decorator with the options that kcheck uses."""

        def decorated(cls: type) -> type:
            cls.__doc__ = cls.__doc__ or cls.__name__  # otherwise built from the signature, which is slow
            own = set(vars(cls))
            fields_only = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
            made = fields_only(cls)
            methods: dict[str, Any] = {"__repr__": _repr(made)}
            if "__init__" not in own:
                methods["__init__"] = _init(made, frozen)
            if eq:
                methods |= {"__eq__": _comparison(made, "__eq__"), "__hash__": _hash(made) if frozen else None}
            if order:
                methods |= {name: _comparison(made, name) for name in ("__lt__", "__le__", "__gt__", "__ge__")}
            if frozen:
                methods |= _frozen(made)
            if frozen and slots:
                methods |= {"__getstate__": _getstate(made), "__setstate__": _setstate(made)}
            for name, method in methods.items():
                if name not in own:
                    setattr(made, name, method)
            return made

        return decorated if cls is None else decorated(cls)


def _init(cls: type, frozen: bool) -> _Method:
    """An ``__init__`` that compiles the real one when it is called, and replaces itself with it."""

    def init(self: object, *args: object, **kwargs: object) -> None:
        _compile(cls, frozen)
        cls.__init__(self, *args, **kwargs)  # type: ignore[misc]

    _waiting[cls] = frozen
    return init


def _compile(cls: Any, frozen: bool) -> None:
    _waiting.pop(cls, None)
    cls.__init__ = _compiled_init(cls, frozen)


def compile_methods() -> None:
    """Compile every ``__init__`` that is not compiled yet, for all processes that are forked from this one."""
    for cls, frozen in list(_waiting.items()):
        _compile(cls, frozen)


def _compiled_init(cls: Any, frozen: bool) -> _Method:
    names: dict[str, Any] = {"_missing": MISSING, "_set": object.__setattr__}
    plain, keyword, body = ["self"], list[str](), list[str]()
    for field in dataclasses.fields(cls):
        name, makes = field.name, field.default_factory is not MISSING
        default = f"_default_{name}"
        names[default] = field.default_factory if makes else field.default
        has_default = names[default] is not MISSING
        if field.init:
            optional = "=_missing" if makes else f"={default}" if has_default else ""
            (keyword if field.kw_only else plain).append(name + optional)
        elif not has_default:
            continue
        made = f"{default}()" if makes else default
        value = made if not field.init else f"{made} if {name} is _missing else {name}" if makes else name
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*plain, *(["*", *keyword] if keyword else [])])
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), names)
    init: _Method = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"  # named in messages about wrong arguments
    init.__module__ = cls.__module__
    return init


def _values(cls: Any, wanted: Callable[[Field[Any]], bool | None]) -> Callable[[object], tuple[Any, ...]]:
    """A function that returns the fields of an object that a method uses, as a tuple."""
    names = [field.name for field in dataclasses.fields(cls) if wanted(field)]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _comparison(cls: type, name: str) -> _Method:
    values: Callable[[object], tuple[Any, ...]] | None = None

    def compare(self: object, other: object) -> Any:
        nonlocal values
        if other is self and name == "__eq__":
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        if values is None:
            values = _values(cls, lambda field: field.compare)
        return getattr(values(self), name)(values(other))

    return compare


def _hash(cls: type) -> _Method:
    values: Callable[[object], tuple[Any, ...]] | None = None

    def hashed(self: object) -> int:
        nonlocal values
        if values is None:
            values = _values(cls, lambda field: field.compare if field.hash is None else field.hash)
        return hash(values(self))

    return hashed


def _repr(cls: Any) -> _Method:
    @recursive_repr()
    def shown(self: object) -> str:
        parts = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(cls) if field.repr)
        return f"{self.__class__.__qualname__}({', '.join(parts)})"

    return shown


def _frozen(cls: Any) -> dict[str, _Method]:
    def refuse(self: object, name: str, doing: str) -> None:
        if type(self) is cls or name in cls.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot {doing} field {name!r}")

    def assign(self: object, name: str, value: object) -> None:
        refuse(self, name, "assign to")
        super(cls, self).__setattr__(name, value)

    def delete(self: object, name: str) -> None:
        refuse(self, name, "delete")
        super(cls, self).__delattr__(name)

    return {"__setattr__": assign, "__delattr__": delete}


def _getstate(cls: type) -> _Method:
    values: Callable[[object], tuple[Any, ...]] | None = None

    def state(self: object) -> tuple[Any, ...]:
        nonlocal values
        if values is None:
            values = _values(cls, lambda _: True)
        return values(self)

    return state


def _setstate(cls: Any) -> _Method:
    setters: list[Callable[[object, Any], None]] | None = None  # the slots: workers send thousands of objects

    def restore(self: object, state: Sequence[Any]) -> None:
        nonlocal setters
        if setters is None:
            setters = [getattr(cls, field.name).__set__ for field in dataclasses.fields(cls)]
        for set_, value in zip(setters, state, strict=True):
            set_(self, value)

    return restore
