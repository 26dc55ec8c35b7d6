"""A lowered module has its functions as records, and is divided into the kernel's code and that of its checks."""

from __future__ import annotations

import re

import pytest
from damaged import samples
from division_kernel import KERNEL

from kcheck.ptx.abi import Checks
from kcheck.ptx.compile import lower
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.module import LlvmModule
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.syntax.parser import parse

ALL = Checks(race=True, init=True, overflow=True, cover=True)


TABLE = "@table"
READS = Signature("@reads.a.table", "i32", {"p": "ptr"})
THREE = Signature("@three", "i32", {})
CALLS = Signature("@calls.three", "i32", {"a": "<4 x i32>"})
ROOT = Signature("@kcheck.warp", "i32", {"p": "ptr"})


def _lowered(factor: str) -> LlvmModule:
    return lower(parse(KERNEL.replace("FACTOR", factor)), "double", 16, ALL, 32).ir


def _small() -> LlvmModule:
    """A kernel that calls a function that reads its table, and one that calls an inlined function."""
    reads = FunctionBuilder(READS, "noinline")
    reads.ret(reads.array(reads.address_of(TABLE), "i32")[0])
    three = FunctionBuilder(THREE, "alwaysinline")
    three.ret(3)
    calls = FunctionBuilder(CALLS, "noinline", attributes="cold")
    calls.ret(calls.run(THREE))
    root = FunctionBuilder(ROOT, exported=True)
    four = root.splat(root.const("i32", 4), 4)
    root.ret(root.run(CALLS, a=four) + root.run(READS, p=root.argument("p")))
    made = [function.definition() for function in (reads, three, calls, root)]
    tables = {TABLE: f"{TABLE} = internal constant i32 7"}
    return LlvmModule({}, {function.name: function for function in made}, tables)


def test_an_edit_of_the_kernel_leaves_its_checks_as_they_were() -> None:
    """So their code is in the cache."""
    (before, checks), (after, again) = _lowered("2").divided(), _lowered("3").divided()
    assert before.text != after.text
    assert checks.text == again.text
    assert len(checks.definitions) > 10
    assert {"@kcheck.race.judge", "@kcheck.resolve"} <= checks.definitions.keys()


def test_every_function_is_defined_once() -> None:
    """Functions that are inlined may be in both modules: nothing of them is left."""
    module = _lowered("2")
    own, checks = module.divided()
    inlined = {name for name, d in module.definitions.items() if d.inlining == "alwaysinline"}
    assert own.definitions.keys() | checks.definitions.keys() == module.definitions.keys()
    assert own.definitions.keys() & checks.definitions.keys() <= inlined


def test_a_function_that_refers_to_a_table_of_the_kernel_stays_with_it() -> None:
    own, checks = _small().divided()
    assert checks.definitions.keys() == {"@calls.three", "@three"}
    assert checks.tables == {}
    assert READS.name in own.definitions
    assert TABLE in own.tables


def test_the_kernel_calls_the_functions_of_the_second_module() -> None:
    """Each with the attributes that it is defined with."""
    own, checks = _small().divided()
    assert "declare i32 @calls.three(<4 x i32>) noinline cold" in own.text
    assert "define i32 @calls.three(<4 x i32> %a) noinline cold {" in checks.text
    assert "define internal i32 @three() alwaysinline {" in checks.text


def test_a_function_stays_with_the_kernel_if_what_it_calls_does() -> None:
    through = FunctionBuilder(Signature("@through", "i32", {"p": "ptr"}), "noinline")
    through.ret(through.run(READS, p=through.argument("p")))
    module = _small()
    functions = {**module.definitions, "@through": through.definition()}
    own, checks = LlvmModule({}, functions, module.tables).divided()
    assert "@through" in own.definitions
    assert "@through" not in checks.definitions


def test_a_kernel_without_such_functions_stays_whole() -> None:
    root = FunctionBuilder(ROOT, exported=True)
    root.ret(0)
    alone = LlvmModule({}, {ROOT.name: root.definition()})
    assert alone.divided() == (alone, LlvmModule())


def _named(function: Definition) -> set[str]:
    """What the text of a function names, other than itself."""
    return set(re.findall(r"@[\w.$]+", "\n".join(function.lines))) - {function.name}


@pytest.mark.parametrize(("width", "checks"), [(1, ALL), (8, Checks()), (32, ALL)])
@pytest.mark.parametrize("name", sorted(samples()))
def test_a_function_knows_what_it_refers_to(name: str, width: int, checks: Checks) -> None:
    """Nothing that its text names is missing, and the module has all of it."""
    tree = parse(samples()[name], f"{name}.ptx")
    module = lower(tree, tree.entries[0].name, width, checks, 32).ir
    known = module.declarations.keys() | module.definitions.keys() | module.tables.keys()
    for function in module.definitions.values():
        assert function.references - {function.name} == _named(function)
        assert function.references <= known


@pytest.mark.parametrize("part", ["declarations", "definitions", "tables"])
def test_each_name_is_that_of_its_text(part: str) -> None:
    module = _lowered("2")
    for name, made in getattr(module, part).items():
        text = made.text if isinstance(made, Definition) else made
        assert re.search(r"@[\w.$]+", text)[0] == name  # type: ignore[index]
