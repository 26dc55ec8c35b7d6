"""Describes sums that lose digits: of nearly equal terms, or of a term that is much smaller than the other."""

from __future__ import annotations

import math

import numpy as np

from kcheck.cpu.special_values import FORMS
from kcheck.dataclass import dataclass
from kcheck.model.noise import Noise
from kcheck.model.outcome import KeptDigits
from kcheck.ptx.abi import FaultRecord, Launch
from kcheck.ptx.program import Site

_FORMATS = {"f32": ("float32", 24), "f16": ("float16", 11), "bf16": ("bfloat16", 8)}


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum: its text, its two terms, and its format with the bits of its significand."""

    text: str
    terms: tuple[float, float]
    format: str
    bits: int


def set_noise(launch: Launch, noise: Noise) -> None:
    """Set how a launch of code with ``Checks.noise`` rounds."""
    launch.noise, launch.noise_line, launch.noise_seed = noise.amplitude, noise.line, noise.seed


def lost(fault: FaultRecord, site: Site | None) -> tuple[str, KeptDigits]:
    """A difference of nearly equal terms: ``1.0000001 - 1 keeps 1 of 24 bits``."""
    found = _read(fault, site)
    total, kept = sum(found.terms), 0
    if total:
        kept = max(0, found.bits - math.floor(math.log2(max(map(abs, found.terms)) / abs(total))))
    return f"{found.text} keeps {kept} of {found.bits} bits", KeptDigits(kept, found.bits, False)


def absorbed(fault: FaultRecord, site: Site | None) -> tuple[str, KeptDigits]:
    """A term much smaller than the other one: ``2048 + 1 in float16 keeps 0 of 11 bits of the smaller term``."""
    found = _read(fault, site)
    small, large = sorted(map(abs, found.terms))
    kept = max(0, found.bits - math.floor(math.log2(large / small))) if small else 0
    text = f"{found.text} in {found.format} keeps {kept} of {found.bits} bits of the smaller term"
    return text, KeptDigits(kept, found.bits, True)


def _read(fault: FaultRecord, site: Site | None) -> _Sum:
    opcode, *modifiers = (site.text.split()[0] if site is not None else "").split(".")
    words = np.array([fault.address & 0xFFFFFFFF, fault.address >> 32, fault.size], np.uint32)
    x, y, z = (float(value) for value in words.view(np.float32))
    form, written = FORMS.get(opcode, opcode), [x, y, z]
    terms = (x, -y) if opcode == "sub" else (x, y) if opcode == "add" else (x * y, z)
    if opcode == "add" and min(x, y) < 0:
        form, written = "{0} - {1}", [max(x, y), -min(x, y)]
    elif opcode == "sub" and y < 0:
        form, written = "{0} + {1}", [x, -y]
    elif opcode in ("fma", "mad") and x * y < 0 < z:
        form, written = "{2} - {0} * {1}", [abs(x), abs(y), z]
    elif opcode in ("fma", "mad") and z < 0:
        form, written = "{0} * {1} - {2}", [x, y, -z]
    text = form.format(*(f"{value:.8g}" for value in written))
    return _Sum(text, terms, *_FORMATS.get(modifiers[-1] if modifiers else "", ("float32", 24)))
