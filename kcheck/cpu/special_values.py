"""Describes the operations that make a NaN or an infinity: the operation, and the values of its operands."""

from __future__ import annotations

import numpy as np

from kcheck.model.outcome import SpecialValue
from kcheck.ptx.abi import FaultKind, FaultRecord
from kcheck.ptx.program import Site

FORMS = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "fma": "{0} * {1} + {2}",
    "mad": "{0} * {1} + {2}",
    "div": "{0} / {1}",
    "rcp": "1 / {0}",
    "sqrt": "sqrt({0})",
    "rsqrt": "1 / sqrt({0})",
    "ex2": "2 ** {0}",
    "lg2": "log2({0})",
    "sin": "sin({0})",
    "cos": "cos({0})",
}
"""How to write an instruction, as a format of its operands."""
_NARROW = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}


def made(kind: FaultKind, fault: FaultRecord, site: Site | None) -> tuple[str, SpecialValue]:
    """An operation with the values of its operands, and its result, as text: ``inf / inf is NaN``."""
    bits = np.array([fault.address & 0xFFFFFFFF, fault.address >> 32, fault.size], np.uint32)
    values = bits.view(np.float32)
    opcode, *modifiers = (site.text.split()[0] if site is not None else "").split(".")
    form = FORMS.get(opcode, opcode)
    if opcode == "cvt" and len(modifiers) > 1:
        form = f"{{0}} as {_NARROW.get(modifiers[-2], modifiers[-2])}"
    special = SpecialValue(kind is FaultKind.MADE_NAN, bool(np.isinf(values[: form.count("{")]).any()))
    result = "NaN" if special.is_nan else "infinite"
    return f"{form.format(*(f'{value:.6g}' for value in values))} is {result}", special
