"""Compares what machines gave with what the model says."""

from __future__ import annotations

from collections.abc import Sequence

from tests.isa.machines import Cpu, Launch, Machine, Ran
from tests.isa.model import Answer, admits, show
from tests.isa.model.answers import Anything, settled
from tests.isa.model.approximate import Either, UpperWord
from tests.isa.model.formats import Within
from tests.isa.program import BLOCK, ENTRY, Case, Program

SHOWN = 4
"""Complaints of one case that are printed."""

_SETTLED = (Within, Anything, Either, UpperWord)
"""Answers that leave a number open: there every width must choose the same."""


def run(machine: Machine, program: Program) -> Ran:
    """A program's results."""
    return machine.run(Launch(program.text, ENTRY, program.buffers, program.blocks, BLOCK))


def _answers(case: Case, row: tuple[int, ...]) -> tuple[int | Answer, ...]:
    reply = case.form.compute(*row)
    return reply if isinstance(reply, tuple) else (reply,)


def _told(bits: Sequence[int]) -> str:
    return " ".join(map(hex, bits))


def complaints(program: Program, machines: Sequence[Machine]) -> list[str]:
    """Where a machine gives what the ISA does not allow, or differs from the first one; empty: nowhere."""
    ran = [run(machine, program) for machine in machines]
    found = []
    for machine, one in zip(machines, ran, strict=True):
        allowed = {"division"} if any(case.form.divides for case in program.cases) else set()
        found += [f"{machine.name} reports {rule} in {program.cases[0]} ..." for rule in set(one.found) - allowed]
    for index, case in enumerate(program.cases):
        given = [program.outcomes(index, one.buffers[1]) for one in ran]
        expected = [_answers(case, row) for row in program.rows]
        lengths = {len(each) for each in expected}
        assert lengths == {len(case.form.results)}, f"the model of {case} gives too few results"
        if all(outcome == expected for outcome in given):  # exact bits everywhere
            continue
        wrong = 0
        for number, (row, allowed_ones) in enumerate(zip(program.rows, expected, strict=True)):
            for machine, outcome in zip(machines, given, strict=True):
                answers = tuple(map(settled, allowed_ones)) if isinstance(machine, Cpu) else allowed_ones
                bits = outcome[number]
                if not all(map(admits, answers, bits)):
                    said = f"expected {', '.join(map(show, answers))}"
                elif bits != given[0][number] and any(isinstance(a, _SETTLED) for a in answers):
                    said = f"{machines[0].name} gave {_told(given[0][number])}"
                else:
                    continue
                wrong += 1
                if wrong <= SHOWN:
                    found.append(f"{case} ({_told(row)}): {machine.name} gave {_told(bits)}, {said}")
        if wrong > SHOWN:
            found.append(f"{case}: {wrong - SHOWN} more")
    return found
