"""``kcheck.dataclass`` is the standard decorator, except for when the methods are written."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import time
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest

from kcheck.dataclass import compile_methods
from kcheck.dataclass import dataclass as lazy

Decorator = Callable[..., Any]
BOTH = pytest.mark.parametrize("decorator", [dataclasses.dataclass, lazy], ids=["standard", "kcheck"])


@lazy(frozen=True, slots=True)
class Span:
    """A class of the module, so that it can be pickled."""

    file: str
    line: int = 1
    notes: list[str] = field(default_factory=list)


def point(decorator: Decorator, **options: bool) -> Any:
    """A class with each kind of field."""

    @decorator(**options)
    class Point:
        """Of a plane."""

        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list)
        note: str = field(default="", compare=False)
        secret: int = field(default=7, repr=False)
        count: int = field(init=False, default=0)
        label: str = field(default="l", kw_only=True)

    return Point


@BOTH
@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_arguments_and_defaults(decorator: Decorator, frozen: bool, slots: bool) -> None:
    """Positional and keyword arguments, defaults, and a new object of each factory for each instance."""
    Point = point(decorator, frozen=frozen, slots=slots)
    first, second = Point(1), Point(1, 3, ["a"], label="m")
    assert (first.x, first.y, first.tags, first.note, first.secret, first.label) == (1, 2, [], "", 7, "l")
    assert (second.x, second.y, second.tags, second.label) == (1, 3, ["a"], "m")
    assert Point(1).tags is not first.tags
    assert hasattr(first, "__dict__") is not slots
    assert dataclasses.asdict(second) == dataclasses.asdict(first) | {"y": 3, "tags": ["a"], "label": "m"}
    assert dataclasses.replace(first, y=9) == Point(1, 9)


@BOTH
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "Point.__init__() missing 1 required positional argument: 'x'"),
        ((1, 2, [], "", 7, 0), "Point.__init__() takes from 2 to 6 positional arguments but 7 were given"),
    ],
)
def test_wrong_arguments_name_the_class(decorator: Decorator, arguments: tuple[Any, ...], says: str) -> None:
    """As the standard one words them, at the first call and later."""
    Point = point(decorator)
    for _ in range(2):
        with pytest.raises(TypeError) as raised:
            Point(*arguments)
        assert str(raised.value).endswith(says)


@BOTH
def test_text_comparison_and_hash(decorator: Decorator) -> None:
    """A field can be left out of any of them; classes that can change have no hash."""
    Point = point(decorator, frozen=True)
    assert repr(Point(1)).endswith("Point(x=1, y=2, tags=[], note='', count=0, label='l')")
    assert Point(1, note="a") == Point(1, note="b") != Point(2)
    assert Point(1).__eq__((1, 2)) is NotImplemented

    @decorator(frozen=True)
    class Pair:
        a: int
        b: str = field(default="", hash=False)

    assert hash(Pair(1, "x")) == hash(Pair(1, "y")) == hash((1,))
    assert point(decorator).__hash__ is None
    assert point(decorator, eq=False)(1) != point(decorator, eq=False)(1)


@BOTH
def test_order(decorator: Decorator) -> None:
    """By the fields, in their order; not with other classes."""

    @decorator(frozen=True, slots=True, order=True)
    class Version:
        major: int
        minor: int = 0

    assert sorted([Version(2), Version(1, 5), Version(1)]) == [Version(1), Version(1, 5), Version(2)]
    assert Version(1) <= Version(1) >= Version(1)
    with pytest.raises(TypeError):
        assert Version(1) < (2, 0)


@BOTH
@pytest.mark.parametrize("slots", [False, True])
def test_frozen(decorator: Decorator, slots: bool) -> None:
    """A frozen object cannot be changed, and can be copied."""
    frozen = point(decorator, frozen=True, slots=slots)(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        frozen.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del frozen.x
    assert copy.deepcopy(frozen) == frozen == copy.copy(frozen)


def test_pickled() -> None:
    """A frozen object with slots survives ``pickle``."""
    assert pickle.loads(pickle.dumps(Span("a", 2, ["n"]))) == Span("a", 2, ["n"])


@BOTH
def test_inherited(decorator: Decorator) -> None:
    """A derived class has the fields of its base first; methods that a class writes itself stay."""

    @decorator(frozen=True)
    class Base:
        name: str

        def __repr__(self) -> str:
            return f"<{self.name}>"

    @decorator(frozen=True)
    class Derived(Base):
        size: int = 0

        def __post_init__(self) -> None:
            object.__setattr__(self, "name", self.name.upper())

    class Plain(Derived):
        pass

    assert repr(Base("a")) == "<a>"
    assert repr(Derived("a", 3)).endswith("Derived(name='A', size=3)")
    assert Plain("a").name == "A"
    assert Plain("a") == Plain("a") != Derived("a")
    assert (Derived.__match_args__, Base.__match_args__) == (("name", "size"), ("name",))


@BOTH
def test_an_object_that_holds_itself_can_be_printed(decorator: Decorator) -> None:
    """With dots where it would begin again."""

    @decorator
    class Node:
        child: object = None

    node = Node()
    node.child = node
    assert repr(node).endswith("Node(child=...)")


def test_creating_a_class_is_quick() -> None:
    """It takes less than half as long as with the standard decorator, which compiles six methods."""

    def seconds(decorator: Decorator) -> float:
        begun = time.thread_time()
        for _ in range(20):
            point(decorator, frozen=True, slots=True)
        return time.thread_time() - begun

    assert min(seconds(lazy) for _ in range(5)) < min(seconds(dataclasses.dataclass) for _ in range(5)) / 2


def test_all_methods_can_be_compiled_at_once() -> None:
    """For processes that are forked afterwards. A class with its own ``__init__`` keeps it."""

    @lazy(frozen=True)
    class Late:
        x: int
        y: int = 2

    @lazy()
    class Own:
        x: int

        def __init__(self) -> None:
            self.x = 7

    before = Late.__init__
    compile_methods()
    assert Late.__init__ is not before
    compiled = Late.__init__
    assert Late(1) == Late(x=1, y=2)
    assert Late.__init__ is compiled
    assert Own().x == 7
