"""docs/engine.md: each stage is what the engine makes of the kernel now, and its examples work."""

from __future__ import annotations

import itertools
import re
import textwrap
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from kcheck.ptx.abi import Checks, FaultKind
from kcheck.ptx.analysis import affine, cfg, liveness, spill_sets, uniformity
from kcheck.ptx.compile import lower
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.isa.events import Access, Observer
from kcheck.ptx.isa.verify import verify
from kcheck.ptx.lowering import kernel
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.runtime.faults import report_fault
from kcheck.ptx.sanitizers.origins import rarely
from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.parser import parse
from tests.isa import one_instruction
from tests.ptx import ptx_machine

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/engine.md").read_text("utf-8")
_BLOCK = re.compile(r"^( *)<!-- (\w+): (\S+) -->\n *```\w+\n(.*?)\n *```$", re.MULTILINE | re.DOTALL)
WIDTH = 8


def blocks(kind: str) -> list[tuple[str, str]]:
    """The name and the text of each block of the page that is marked as of a kind."""
    return [
        (name, "\n".join(line.removeprefix(indent) for line in text.split("\n")))
        for indent, mark, name, text in _BLOCK.findall(PAGE)
        if mark == kind
    ]


PTX = dict(blocks("stage"))["ptx"]
MODULE = parse(PTX, "reverse.ptx")
KERNEL = MODULE.functions["reverse"]


def ir(checks: Checks) -> str:
    """The kernel's own function, for vectors of neighbors along x."""
    text = lower(MODULE, "reverse", WIDTH, checks, WIDTH).ir.text
    begin = text.index("define i32 @kcheck.warp(")
    return text[begin : text.index("\n}\n", begin)]


def tree() -> str:
    statements = (repr(s) for s in KERNEL.body or () if s.line == 12)
    return re.sub(r"(?<=[(]|,) ?(?=(line|opcode|modifiers|operands|guard)=)", "\n    ", next(statements))


def graph() -> str:
    lines = []
    for block in cfg.build(KERNEL, "reverse.ptx").blocks:
        end = block.terminator
        if isinstance(end, Instruction):
            body = " ".join(o.mnemonic for o in block.body if isinstance(o, Instruction))
            after = "".join(f" -> {n}" for n in block.successors)
            lines.append(f"block {block.index}: {body} | {end.mnemonic}{after}")
    return "\n".join(lines)


def facts() -> str:
    found = cfg.build(KERNEL, "reverse.ptx")
    live = liveness.analyze(found)
    alike = uniformity.analyze(found, live, lambda name: False, frozenset(), WIDTH)
    steps = affine.analyze(found, live, alike, liveness.constants(found), lambda name: False, WIDTH).strides
    again = spill_sets.rematerialized(found, alike.uniform)
    return "\n".join(
        [
            f"live after the barrier: {' '.join(sorted(live.names(1)))}",
            f"uniform: {' '.join(sorted(alike.uniform))}",
            f"affine: {', '.join(f'{name} {step}' for name, step in sorted(steps.items()))}",
            f"computed again: {' '.join(sorted(again))}",
        ]
    )


STAGES: dict[str, Callable[[], str]] = {
    "ptx": lambda: PTX,
    "tree": tree,
    "blocks": graph,
    "facts": facts,
    "ir": lambda: ir(Checks()),
    "suspension": lambda: ir(Checks()),
    "race": lambda: ir(Checks(race=True)),
    "init": lambda: ir(Checks(init=True)),
}


def plain(line: str) -> str:
    """A line without the numbers in names of LLVM's values."""
    return re.sub(r"(?<=[%v][a-z])\d+|(?<=%)[pv]\d+|(?<=[a-z]v)\d+", "0", line.strip())


def missing(wanted: str, text: str) -> list[str]:
    """The lines that are not in a text, in this order; other lines may be between them."""
    left = iter([plain(line) for line in text.split("\n")])
    return list(itertools.islice((line for line in wanted.split("\n") if plain(line) not in left), 1))


@pytest.mark.parametrize(("name", "text"), blocks("stage"))
def test_a_stage_looks_as_the_page_shows(name: str, text: str) -> None:
    """Each line of an excerpt is there, in order; numbers of values may differ."""
    assert not missing(text, STAGES[name]())


def test_every_stage_has_an_excerpt_and_a_wrong_line_is_noticed() -> None:
    assert {name for name, _ in blocks("stage")} == set(STAGES)
    assert missing("  %v12 = mul i32 %v10, %v11", ir(Checks()))
    verify(MODULE)


def test_the_kernel_reverses_its_numbers() -> None:
    numbers = np.arange(32, dtype=np.uint32)
    ended = ptx_machine.launch(PTX, [numbers], WIDTH)
    assert not ended.faults
    assert list(numbers) == list(range(31, -1, -1))


@pytest.mark.parametrize(("file", "text"), blocks("file"))
def test_quoted_code_is_in_its_file(file: str, text: str) -> None:
    assert not missing(text, (ROOT / file).read_text("utf-8"))


def test_the_example_sanitizer_reports_a_stored_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's classes, run on a kernel whose lane 3 stores a NaN; a trap stands for the new kind of fault."""
    text = "\n\n".join(text for _, text in blocks("run")).replace("STORED_NAN", "TRAP")
    names = {
        **{c.__name__: c for c in (Observer, Sanitizer, FunctionLowering, cfg.Cfg, Instruction, Access, Value)},
        "Sequence": Sequence,
        "rarely": rarely,
        "partial": partial,
        "report_fault": report_fault,
        "FaultKind": FaultKind,
    }
    exec(textwrap.dedent(text), names)
    sanitizer = names["Nancheck"]
    assert isinstance(sanitizer, type)
    monkeypatch.setattr(
        ptx_machine,
        "lower",
        lambda module, entry, width, row, axis, interiors: kernel.lower(
            module, entry, width, [sanitizer()], row, axis, interiors
        ),
    )
    monkeypatch.setattr(ptx_machine, "compiled", ptx_machine.compiled.__wrapped__)
    ptx = """.version 8.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 x) {
    .reg .u32 %t;
    .reg .f32 %v;
    .reg .u64 %a, %o;
    ld.param.u64 %a, [x];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %o, %t, 4;
    add.u64 %a, %a, %o;
    ld.global.f32 %v, [%a];
    st.global.f32 [%a], %v;
    ret;
}
"""
    numbers = np.zeros(32, np.float32)
    for width in (1, WIDTH):
        assert not ptx_machine.launch(ptx, [numbers], width).faults
    numbers[3] = np.nan
    for width in (1, WIDTH):
        assert [fault[:3] for fault in ptx_machine.launch(ptx, [numbers], width).faults] == [("TRAP", 13, 3)]


def test_the_instruction_of_the_page_agrees_with_its_model() -> None:
    """By the command of the last step."""
    assert "python -m tests.isa.one_instruction bmsk" in PAGE
    count, found = one_instruction.differing("bmsk")
    assert count == 2
    assert found == []


SPANS = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL))
HOMES = [ROOT, ROOT / "kcheck", ROOT / "kcheck" / "ptx", ROOT / "tests"]


def test_the_rooms_of_the_page_are_those_of_the_package() -> None:
    """In the order of the contract that ``make layers`` holds."""
    table = PAGE.partition("## Folders")[2].partition("## ")[0]
    rooms = [room.removesuffix("/").removesuffix(".py") for room in re.findall(r"^\| `(.+?)` \|", table, re.M)]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = (c["layers"] for c in contracts if c.get("containers") == ["kcheck.ptx"])
    found = {path.stem for path in (ROOT / "kcheck/ptx").iterdir() if not path.name.startswith("__")}
    assert rooms == layers
    assert set(rooms) == found


def test_every_file_and_folder_of_the_page_exists() -> None:
    paths = {span for span in SPANS if re.fullmatch(r"[\w./*]+(\.py|/)", span)}
    assert len(paths) > 25
    missing = {path for path in paths if not any(any(home.glob(path.rstrip("/"))) for home in HOMES)}
    for path in sorted(missing):  # some stand in a list of a room's files
        inside = (found for folder in ("kcheck", "tests/isa") for found in (ROOT / folder).rglob(path))
        missing -= {path} if any(inside) else set()
    assert missing == set()


def test_every_name_of_the_page_is_one_of_the_code() -> None:
    """Classes, constants and functions; what has a dot is an attribute of one. Folders have their own test."""
    names = {
        word
        for span in SPANS
        if span[0] not in "%@" and not span.endswith("/")
        for word in re.findall(r"\b(?:[A-Z]\w*[a-z]\w*|[A-Z]\w+|\w+_\w+)\b(?!\.py)", span)
    }
    sources = [path for folder in ("kcheck", "tests/isa", "tests/docs") for path in (ROOT / folder).rglob("*.py")]
    words = set(
        re.findall(r"\w+", "\n".join(path.read_text("utf-8") for path in sources if path != Path(__file__)))
    )
    assert len(names) > 10
    assert names - words == set()
