"""Generators of random numbers whose device is ``cuda``: their states are those of a GPU, a seed and an offset."""

from __future__ import annotations

from pathlib import Path

from tests.functions.test_program_functions_on_cuda import ran

STATES = """
def words(generator):
    return generator.get_state().view(torch.int64).tolist()

default = torch.cuda.default_generators[0]
own = torch.Generator(device="cuda")
"""


def test_the_state_is_a_seed_and_an_offset(tmp_path: Path) -> None:
    program = (
        STATES
        + """
for generator in (default, own):
    generator.manual_seed(-7)
    print(generator.device, words(generator), torch.rand(3, device="cuda", generator=generator).device)
    seed, offset = words(generator)
    print(seed, offset % 4, offset > 0, generator.get_offset() == offset)
"""
    )
    line = "cuda:0 [-7, 0] cuda:0\n-7 0 True True\n"
    assert ran(tmp_path, program) == 2 * line


def test_a_state_that_a_program_has_read_continues_where_it_was(tmp_path: Path) -> None:
    """Also as a copy, in another generator, and after further states."""
    program = (
        STATES
        + """
torch.cuda.manual_seed(1)
first = torch.rand(5, device="cuda")
state = torch.cuda.get_rng_state().clone()
second = torch.rand(5, device="cuda")
after = torch.cuda.get_rng_state()
print(torch.equal(first, second), torch.equal(state, after))
torch.cuda.set_rng_state(state)
print(torch.equal(torch.rand(5, device="cuda"), second), torch.equal(torch.cuda.get_rng_state(), after))
own.set_state(state)
print(torch.equal(torch.rand(5, device="cuda", generator=own), second))
torch.cuda.manual_seed(1)
print(torch.equal(torch.rand(5, device="cuda"), first), torch.equal(torch.cuda.get_rng_state(), state))
torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
print(torch.equal(torch.rand(5, device="cuda"), second))
"""
    )
    assert ran(tmp_path, program) == "False False\nTrue True\nTrue\nTrue True\nTrue\n"


def test_reading_a_state_does_not_change_the_numbers(tmp_path: Path) -> None:
    program = (
        STATES
        + """
numbers = []
for reads in (False, True):
    torch.manual_seed(3)
    numbers.append([])
    for _ in range(4):
        numbers[-1].append(torch.rand(3, device="cuda"))
        reads and words(default)
print(torch.equal(torch.stack(numbers[0]), torch.stack(numbers[1])))
"""
    )
    assert ran(tmp_path, program) == "True\n"


def test_a_program_can_move_the_offset(tmp_path: Path) -> None:
    """As Triton programs do for the numbers that their kernels draw."""
    program = (
        STATES
        + """
default.manual_seed(5)
draws = []
for _ in range(2):
    seed, offset = words(default)
    default.set_state(torch.tensor([seed, offset + 12]).view(torch.uint8))
    print(words(default), default.initial_seed())
    draws.append(torch.rand(3, device="cuda"))
    default.set_offset(offset)
print(torch.equal(*draws))
"""
    )
    assert ran(tmp_path, program) == "[5, 12] 5\n[5, 12] 5\nTrue\n"
