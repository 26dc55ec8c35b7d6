"""Which instructions of PTX the cpu device runs, and which it refuses by name.

    python conformance/ptx_table.py           print what is neither
    python conformance/ptx_table.py --write   write docs/ptx-instructions.md, too

The instructions of the PTX ISA (version 9.0, chapter "Instruction Set") and their forms are in
conformance/ptx_instructions. There, `# section` begins a section, and `name sm_xx` an instruction with the first
target that has it. Indented lines are its forms: with the types and modifiers that code for sm_75 to sm_89 can
have, and the registers %p, %h (16 bits), %r (32), %d (64), %q (128), %f and %g (f32, f64).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from kcheck.errors import PtxError  # noqa: E402
from kcheck.ptx.compile import lower  # noqa: E402
from kcheck.ptx.isa.refused import REASONS  # noqa: E402
from kcheck.ptx.syntax.parser import parse  # noqa: E402

PAGE = ROOT / "docs" / "ptx-instructions.md"
LISTS = HERE / "ptx_instructions"

_TARGET = 89
_KERNEL = """.version 8.7
.target sm_{target}
.address_size 64
.func nothing() {{ ret; }}
.visible .entry one(.param .u64 x) {{
  .reg .pred %p<5>; .reg .b16 %h<5>; .reg .b32 %r<10>; .reg .b64 %d<5>; .reg .f32 %f<10>; .reg .f64 %g<5>;
  {registers}
  {statement}
END:
NEXT:
  ret;
}}
"""


@dataclass(frozen=True, slots=True)
class Listed:
    """An instruction of the ISA: its section, name, first target (75 for sm_75), and forms as statements."""

    section: str
    name: str
    since: int
    forms: tuple[str, ...]


def read_lists() -> Iterator[Listed]:
    """The instructions of conformance/ptx_instructions, in order."""
    for path in sorted(LISTS.glob("*.txt")):
        yield from _read(path.read_text())


def _read(text: str) -> Iterator[Listed]:
    section, name, since, forms = "", "", 0, []
    for line in (*text.splitlines(), ""):
        if line.startswith("  "):
            forms.append(line.strip())
            continue
        if forms:
            yield Listed(section, name, since, tuple(forms))
            forms = []
        if line.startswith("# "):
            section = line[2:]
        elif line:
            name, _, target = line.rpartition(" sm_")
            since = int(target)


def kernel(statement: str, target: int = _TARGET) -> str:
    """PTX of a kernel with one statement."""
    registers = ".reg .b128 %q<3>;" if "%q" in statement else ""
    if "TARGETS" in statement:
        registers += " TARGETS: .branchtargets END, NEXT;"
    return _KERNEL.format(target=target, registers=registers, statement=statement)


def refusal(statement: str) -> str | None:
    """Why the cpu device refuses a statement; None if it runs it.

    Raises:
        PtxError: it is refused, but not by name.
    """
    try:
        lower(parse(kernel(statement)), "one", 32)
    except PtxError as error:
        found = next((reason for reason in REASONS if reason in str(error)), None)
        if found is None:
            raise
        return found
    return None


def page(instructions: Sequence[Listed]) -> str:
    """The page: a table for each section."""
    reasons = {listed: [refusal(form) for form in listed.forms] for listed in instructions}
    runs = sum(not any(found) for found in reasons.values())
    lines = [
        "# PTX instructions",
        "",
        "This page lists every instruction of the PTX ISA, the target that it needs, and whether the cpu device",
        "runs it. Written by `make ptx-table`, which lowers the forms in `conformance/ptx_instructions`. Tests",
        "check that each instruction runs, or is rejected with the reason in this table, and that NVIDIA's",
        "assembler accepts the forms for sm_89 and lower.",
        "",
        f"{runs} of {len(reasons)} instructions run; the others are errors that name the instruction.",
    ]
    section = ""
    for listed, found in reasons.items():
        if listed.section != section:
            section = listed.section
            lines += ["", f"## {section}", "", "| instruction | target | on the cpu device |", "|---|---|---|"]
        why = next(filter(None, found), None)
        lines.append(f"| `{listed.name}` | sm_{listed.since} | {'runs' if why is None else why} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Check every form; write the page."""
    instructions = list(read_lists())
    bad = 0
    for listed in instructions:
        for form in listed.forms:
            try:
                refusal(form)
            except PtxError as error:
                bad += 1
                print(f"{form}\n    {error}", file=sys.stderr)
    if not bad and "--write" in sys.argv[1:]:
        PAGE.write_text(page(instructions))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
