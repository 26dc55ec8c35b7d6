"""Damaged PTX of real kernels: read or refused by a PtxError, and what is accepted runs without harm."""

from __future__ import annotations

import collections
import contextlib
import itertools
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from damaged import damaged, samples
from device_child import DeviceChild
from isa_kernels import isa_kernel

from kcheck.errors import PtxError
from kcheck.ptx.isa.refused import REASONS
from kcheck.ptx.isa.verify import verify
from kcheck.ptx.syntax.parser import parse

HERE = Path(__file__).parent
READ = 2000
RUN = 160
CALLS = 20
"""The most calls and returns per character that reading may take. Sound files take 7 to 11."""


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceChild]:
    """A process on the device."""
    made = DeviceChild(HERE / "damaged_on_device.py", tmp_path_factory.mktemp("cache"))
    yield made
    made.close()


@pytest.mark.parametrize("name", sorted(samples()))
def test_the_samples_are_sound(name: str) -> None:
    """What is damaged below is read and verified as it stands."""
    verify(parse(samples()[name], f"{name}.ptx"))


def test_kernels_with_listed_instructions_are_sound() -> None:
    """Before they are damaged, they are read, or refused by name."""
    refusals = []
    for seed in range(60):
        try:
            verify(parse(isa_kernel(random.Random(seed)), "listed.ptx"))
        except PtxError as error:
            refusals.append(str(error))
    assert len(refusals) < 20
    assert [told for told in refusals if not any(reason in told for reason in REASONS)] == []


@pytest.mark.parametrize("first", range(0, READ, READ // 4))
def test_damaged_ptx_is_read_or_refused(first: int) -> None:
    """A tree that verifies or a PtxError with its place; never another exception."""
    endings = collections.Counter[str]()
    for seed in range(first, first + READ // 4):
        _, text = damaged(seed)
        refusal = None
        try:
            verify(parse(text, "damaged.ptx"))
        except PtxError as error:
            refusal = str(error)
        endings["read" if refusal is None else "refused"] += 1
        assert refusal is None or re.match(r"damaged\.ptx:\d+: .", refusal), (seed, refusal)
    assert min(endings["read"], endings["refused"]) > READ // 40


def calls(text: str) -> int:
    """How many calls and returns of functions it takes to read a text, or to refuse it."""
    seen = itertools.count()
    sys.setprofile(lambda *_: next(seen))
    try:
        with contextlib.suppress(PtxError):
            verify(parse(text, "damaged.ptx"))
    finally:
        sys.setprofile(None)
    return next(seen)


@pytest.mark.parametrize("first", range(2))
def test_reading_damaged_ptx_takes_work_in_proportion_to_its_length(first: int) -> None:
    """No damage sends the parser back and forth."""
    for seed in range(first, READ, 10):
        _, text = damaged(seed)
        assert calls(text) < CALLS * len(text), seed


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, RUN, RUN // 4))
def test_accepted_damage_does_no_harm(child: DeviceChild, first: int) -> None:
    """Damaged kernels compile and run to an end that the driver names, and the process lives."""
    for seed in range(first, first + RUN // 4):
        child.ask({"seed": seed}, seconds=60)
    assert child.starts == 1


@pytest.mark.parametrize("seed", [3558, 8923, 94884])
def test_a_file_that_the_soak_found_is_read_or_refused(seed: int) -> None:
    """A video instruction without all its types."""
    _, text = damaged(seed)
    with pytest.raises(PtxError, match=r"^damaged\.ptx:\d+: ."):
        verify(parse(text, "damaged.ptx"))


@pytest.mark.parametrize(("seed", "ending"), [(968, "finished"), (1042, "not compiled")])
def test_a_file_that_the_soak_found_runs_or_is_refused(seed: int, ending: str, child: DeviceChild) -> None:
    """A guarded barrier that is never reached; a load without an address."""
    assert child.ask({"seed": seed}, seconds=60) == ending
