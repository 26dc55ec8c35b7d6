"""Facts about a kernel, found in its syntax tree before it is lowered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kcheck.alignment import align_up
from kcheck.model.tensor_sum import TensorSum
from kcheck.ptx.isa import dot
from kcheck.ptx.program import ParamSlot
from kcheck.ptx.syntax.ast import Call, Function, Instruction, Label, Module, Operation, Special, Symbol
from kcheck.ptx.syntax.opcodes import ATOMICS
from kcheck.ptx.syntax.types import TYPES

_NARROW_FLOATS = frozenset({"f16", "f16x2", "bf16", "bf16x2"})
_FLOATS = _NARROW_FLOATS | {"f32", "f64"}
_ROUNDS = frozenset({"add", "sub", "mul", "fma", "ex2", "tanh"})


def param_slots(kernel: Function) -> tuple[tuple[ParamSlot, ...], int]:
    """The place of each parameter of a kernel, and their total size, in bytes (PTX ISA, "Kernel Function
    Parameters": in order, each aligned)."""
    slots = []
    end = 0
    for variable in kernel.params:
        size = (variable.count or 0) * TYPES[variable.type].bytes
        align = max(variable.align, 1)  # it is 0 for an empty struct
        offset = align_up(end, align)
        slots.append(ParamSlot(variable.name, offset, size, align))
        end = offset + size
    return tuple(slots), end


def called_functions(module: Module, kernel: Function) -> list[Function]:
    """The functions that a kernel may reach, the kernel first: those it calls, or whose address it takes. If it
    calls through a register, also those whose address the module has, as in a table of virtual functions.

    The result for a kernel of the module is kept. A kernel into which functions were inlined is a different one.
    """
    if module.functions.get(kernel.name) is not kernel:
        return _reached(module, kernel)
    if kernel.name not in module.reached:
        module.reached[kernel.name] = tuple(_reached(module, kernel))
    return list(module.reached[kernel.name])


def _reached(module: Module, kernel: Function) -> list[Function]:
    found = [kernel]
    seen = {kernel.name}
    for function in found:
        for statement in function.body or ():
            names: list[str] = []
            if isinstance(statement, Call):
                target = statement.target
                names.extend([target.name] if isinstance(target, Symbol) else _pointed(module))
            elif isinstance(statement, Instruction):
                names.extend(o.name for o in statement.operands if isinstance(o, Symbol))
            for name in names:
                callee = module.functions.get(name)
                if callee is not None and callee.body is not None and name not in seen and not callee.is_entry:
                    seen.add(name)
                    found.append(callee)
    return found


def _pointed(module: Module) -> list[str]:
    """The functions whose address an initializer has, or an instruction takes."""
    values: list[object] = [value for variable in module.variables.values() for value in variable.initial]
    for function in module.functions.values():
        for statement in function.body or ():
            if isinstance(statement, Instruction):
                values.extend(statement.operands)
    return list(dict.fromkeys(value.name for value in values if isinstance(value, Symbol)))


def function_numbers(module: Module) -> dict[str, int]:
    """The number of each function except kernels, by name: the same for all kernels, because one may call through
    an address that another one has stored."""
    functions = module.functions.values()
    return {name: n for n, name in enumerate(f.name for f in functions if not f.is_entry and f.body is not None)}


def operations(functions: Iterable[Function]) -> Iterator[Operation]:
    """The operations of functions, in order."""
    return (s for f in functions for s in f.body or () if not isinstance(s, Label))


def adds_floats_atomically(functions: Iterable[Function]) -> bool:
    """Whether an atomic operation adds floats: the order of the threads changes the rounding."""
    return any(
        isinstance(i, Instruction)
        and i.opcode in ATOMICS
        and "add" in i.modifiers
        and not _FLOATS.isdisjoint(i.modifiers)
        for i in operations(functions)
    )


def narrow_floats(functions: Iterable[Function]) -> frozenset[str]:
    """The formats narrower than float32 to which a kernel rounds: ``16-bit`` where arithmetic is done in 16-bit
    floats, ``16-bit sums`` where matrix products are summed in float16, ``tf32`` where their operands are."""
    found = set()
    for i in operations(functions):
        if isinstance(i, Instruction):
            if i.opcode in _ROUNDS and not _NARROW_FLOATS.isdisjoint(i.modifiers):
                found.add("16-bit")
            if i.opcode in ("mma", "wmma") and "mma" in (i.opcode, *i.modifiers):
                if "tf32" in i.modifiers:
                    found.add("tf32")
                if "f16" in i.modifiers and "f32" not in i.modifiers:
                    found.add("16-bit sums")
    return frozenset(found)


_SHAPE = re.compile(r"m\d+n\d+k(\d+)")


def tensor_sums(functions: Iterable[Function], capability: int) -> frozenset[TensorSum]:
    """The sums in float32 that tensor cores truncate.

    Args:
        capability: 80 for sm_80.
    """
    found = set()
    for i in operations(functions):
        if not isinstance(i, Instruction) or "f32" not in i.modifiers or i.opcode not in ("mma", "wmma"):
            continue
        if "mma" not in (i.opcode, *i.modifiers):
            continue
        depth = next((int(shape[1]) for m in i.modifiers if (shape := _SHAPE.fullmatch(m))), 0)
        # A wmma of float16 names the types of C and D only.
        bits = next((dot.FORMATS[m].bits for m in i.modifiers if m in dot.FORMATS), 16)
        if "m8n8k4" in i.modifiers and capability >= 80:
            continue  # computed without tensor cores (mma_quads.py)
        if depth:
            most = dot.WMMA_TF32_K if i.opcode == "wmma" and bits == 32 else depth
            found.add(dot.tensor_sum(bits, depth, capability, most))
    return frozenset(found)


def uses_thread_y(functions: Iterable[Function]) -> bool:
    """Whether a thread reads its index along y."""
    return any(
        isinstance(operand, Special) and operand.name in ("tid", "tid.y")
        for i in operations(functions)
        if isinstance(i, Instruction)
        for operand in i.operands
    )
