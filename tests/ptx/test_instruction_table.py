"""Every instruction of the PTX ISA runs or is refused by name, and docs/ptx-instructions.md says which."""

from __future__ import annotations

import pytest

from conformance.ptx_table import PAGE, Listed, kernel, page, read_lists, refusal
from kcheck.device.artifact import no_compiler

INSTRUCTIONS = list(read_lists())
_NEWEST = 89


def test_the_list_has_every_section_of_the_isa() -> None:
    assert len({listed.name for listed in INSTRUCTIONS}) == len(INSTRUCTIONS) > 200


@pytest.mark.parametrize("listed", INSTRUCTIONS, ids=lambda listed: listed.name)
def test_each_form_runs_or_is_refused_by_name(listed: Listed) -> None:
    """Refusing it in another way raises PtxError."""
    for form in listed.forms:
        reason = refusal(form)
        assert reason is None or len(reason) > 20


def test_the_page_is_what_the_command_writes() -> None:
    assert PAGE.read_text() == page(INSTRUCTIONS), "run make ptx-table"


@pytest.mark.skipif(bool(no_compiler()), reason=no_compiler() or "")
def test_the_assembler_accepts_the_forms_up_to_sm_89() -> None:
    """A form that is not PTX would prove nothing."""
    from cuda.core import Linker, LinkerOptions, ObjectCode

    old = [listed for listed in INSTRUCTIONS if listed.since <= _NEWEST and listed.name not in _GONE]
    wrong = []
    for listed in old:
        for form in listed.forms:
            try:
                code = ObjectCode.from_ptx(kernel(form).encode())
                Linker(code, options=LinkerOptions(arch=f"sm_{_NEWEST}")).link("cubin")
            except Exception as error:
                wrong.append(f"{form}: {error}")
    assert not wrong, "\n".join(wrong)


_GONE = frozenset({"shfl (without .sync)", "vote (without .sync)", "istypep"})
"""Not for sm_70 and later, or not with texture objects."""
