"""Generators of random numbers on ``cuda``.

PyTorch's operations draw from a generator of the CPU, whose state has 5,056 bytes. A program gets the 16 bytes of
a GPU's generator: a seed and an offset. Triton programs pass both to their kernels, and set an offset that is
beyond the numbers that a kernel has drawn.
"""

from __future__ import annotations

import threading
from typing import Any, TypeAlias

_STEP = 4
"""A GPU's generator draws four numbers at a time, so offsets are multiples of 4."""

_MOST_KNOWN = 10_000
"""States that are kept, each 5 KB. A program that restores an older one gets different numbers."""

_MIX = 0x9E3779B97F4A7C15

Point: TypeAlias = tuple[int, int]
"""Seed and offset."""


class _KnownStates:
    """Which state of the CPU's generator a seed and an offset stand for.

    A state has one offset: a program reads equal states if the same numbers follow.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._new = torch.Generator
        self._states: dict[Point, Any] = {}
        self._points: dict[bytes, Point] = {}
        self._lock = threading.Lock()

    def point(self, seed: int, state: Any, last: int) -> Point:
        """The seed and offset for a state; a new offset is above ``last``."""
        if self._torch.equal(state, self.state((seed, 0))):
            return seed, 0
        with self._lock:
            known = self._points.get(state.numpy().tobytes())
            if known is not None:
                return known
            offset = last + _STEP
            while (seed, offset) in self._states:
                offset += _STEP
            self._add((seed, offset), state)
            return seed, offset

    def state(self, point: Point) -> Any:
        """The state for a seed and an offset: always the same."""
        seed, offset = point
        with self._lock:
            if point not in self._states:
                # Any function of both will do. With offset 0, it is the state that the seed alone gives.
                mixed = (seed + offset * _MIX) % (1 << 63) if offset else seed
                state = self._new().manual_seed(mixed).get_state()
                state.view(self._torch.int64)[0] = seed
                self._add(point, state)
            return self._states[point]

    def _add(self, point: Point, state: Any) -> None:
        if len(self._states) >= _MOST_KNOWN:
            oldest = next(iter(self._states))
            del self._points[self._states.pop(oldest).numpy().tobytes()]
        self._states[point] = state
        self._points[state.numpy().tobytes()] = point


def patch_generators(torch: Any) -> None:
    """Change ``torch.Generator`` and ``torch.cuda.default_generators``.

    ``host`` of a generator on ``cuda`` is the generator that PyTorch's operations draw from: for the default one,
    ``torch.default_generator``.
    """
    plain = torch.Generator

    class Generator(plain):  # type: ignore[misc, valid-type]
        """Makes a generator of the requested device."""

        def __new__(cls, device: Any = None) -> Any:
            if device is not None and torch.device(device).type == "cuda":
                return on_cuda.on(None)
            return super().__new__(cls, torch.device("cpu") if device is None else device)

    on_cuda = _on_cuda(torch, plain, Generator, _KnownStates(torch))
    torch.Generator = Generator
    torch.cuda.default_generators = (on_cuda.on(torch.default_generator),)


def _on_cuda(torch: Any, plain: Any, base: Any, known: _KnownStates) -> Any:
    """The class of generators on ``cuda``: a subclass of ``base``, implemented with the methods of ``plain``."""

    class CudaGenerator(base):  # type: ignore[misc]
        """A generator whose device is ``cuda``."""

        device = torch.device("cuda", 0)
        last_offset = 0

        @classmethod
        def on(cls, host: Any) -> Any:
            """A generator that draws from ``host``, or from itself if that is None."""
            made = plain.__new__(cls, torch.device("cpu"))
            made.host = made if host is None else host
            return made

        def _point(self) -> Point:
            state = plain.get_state(self.host)
            _, self.last_offset = point = known.point(int(state.view(torch.int64)[0]), state, self.last_offset)
            return point

        def _move(self, point: Point) -> None:
            plain.set_state(self.host, known.state(point))
            self.last_offset = point[1]

        def get_state(self) -> Any:
            """Seed and offset, as bytes."""
            return torch.tensor(self._point(), dtype=torch.int64, device="cpu").view(torch.uint8)

        def set_state(self, state: Any) -> Any:
            """Continue from a seed and an offset."""
            if state.dtype != torch.uint8 or state.numel() != 16:
                raise RuntimeError("the state of a generator on cuda has 16 bytes: a seed and an offset")
            seed, offset = state.view(torch.int64).tolist()
            self._move((seed, offset))
            return self

        def get_offset(self) -> int:
            """The offset in the state."""
            return self._point()[1]

        def set_offset(self, offset: int) -> None:
            """Continue from an offset, with the same seed."""
            self._move((self._point()[0], offset))

        def manual_seed(self, seed: int) -> Any:
            """Start from a seed."""
            plain.manual_seed(self.host, seed)
            self.last_offset = 0
            return self

        def seed(self) -> int:
            """Start from a random seed."""
            self.last_offset = 0
            return int(plain.seed(self.host))

        def initial_seed(self) -> int:
            """The seed that the numbers started from."""
            return int(plain.initial_seed(self.host))

    return CudaGenerator
