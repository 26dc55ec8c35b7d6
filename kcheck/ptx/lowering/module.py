"""State shared by the functions of one lowered module: layouts, sites, and the outlined functions they call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field

from kcheck.alignment import align_up
from kcheck.dataclass import dataclass
from kcheck.errors import PtxError
from kcheck.ptx.abi import RESERVED, FaultKind
from kcheck.ptx.analysis.kernel_facts import function_numbers
from kcheck.ptx.ir.builder import integer_of
from kcheck.ptx.ir.signature import Definition, Inlining
from kcheck.ptx.program import AccessRole, GlobalVariable, PointerUse, SharedVariable, Site
from kcheck.ptx.runtime import memory
from kcheck.ptx.runtime.access import AccessKind, CompanionMemory
from kcheck.ptx.runtime.admission import Admission, admit_ir
from kcheck.ptx.runtime.copy_queue import CopyQueue
from kcheck.ptx.runtime.lookup import LocalLayout
from kcheck.ptx.runtime.strided import strided_ir
from kcheck.ptx.syntax.ast import Address, Call, Float, Function, Instruction, Integer, Module, Symbol, Variable
from kcheck.ptx.syntax.types import TYPES
from kcheck.span import is_users

_FIRST_FUNCTION = 0x4B43_0000_0000
"""The address of the first function. These are not real addresses, only numbers, 16 apart."""


@dataclass(slots=True)
class ModuleLowering:
    """One module being lowered for one kernel.

    Attributes:
        width: lanes of a vector.
        shared: offset in the shared window, by symbol; ``shared_bytes`` in all.
        local: the layout of local memory in a vector's state; set once the functions are known.
        globals: index in ``Launch.globals``, by symbol.
        functions: the number of each function except the kernel, by name.
        declarations, definitions: of the LLVM module, by name with its ``@``; ``tables``: its constants.
        dynamic_shared: whether the code uses dynamic shared memory.
        axis: the axis of the block along which threads are numbered first, so that the threads of a vector can be
            neighbors there.
        sees_rows: whether every sanitizer does without the address of each lane.
        in_rows: whether the threads of every vector are neighbors along the axis.
        outlined: whether vector accesses are calls, because the code has too many to inline.
        is_short: whether the code has so few accesses that all parts of each are inlined.
        posted_columns: the most operands that a lane of a narrow vector posts for one warp-level operation.
        accesses: names of the functions for accesses, by (store, element, space, scalar, with its companion).
        copies: where a vector keeps its asynchronous copies; None if the code has none.
        companion_memory: returns where companions are in memory; set by a sanitizer that keeps them there.
        observer_columns: columns that observers post for a warp-level operation, after the operands.
        follows_barriers: whether a sanitizer must see each barrier that a block passes.
        roles: of accesses (by ``id``); set by a sanitizer that needs them.
        pointers: the parameters that accesses go through; likewise.
        array_of: the shared array that an access (by ``id``) uses, if that is known at compile time.
        bounds: offset and bytes of that array in the shared window, by site.
        has_versions: whether the code of a block may have a second version: it takes more time to compile.
        repeats: whether a second version of the kernel is being lowered, in which sites keep their numbers.
        numbers: the first site of each operation (by ``id``) in a space.
    """

    module: Module
    width: int
    shared: dict[str, int]
    shared_bytes: int
    local: LocalLayout
    globals: dict[str, int]
    functions: dict[str, int]
    declarations: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    prints: bool = False
    dynamic_shared: bool = False
    axis: str = "x"
    sees_rows: bool = True
    in_rows: bool = False
    outlined: bool = False
    is_short: bool = False
    posted_columns: int = 0
    accesses: dict[tuple[bool, str, str, bool, bool], str] = field(default_factory=dict)
    copies: CopyQueue | None = None
    companion_memory: Callable[[ModuleLowering], CompanionMemory] | None = None
    observer_columns: int = 0
    follows_barriers: bool = False
    roles: Mapping[int, AccessRole] = field(default_factory=dict)
    pointers: PointerUse = PointerUse()
    array_of: Mapping[int, SharedVariable] = field(default_factory=dict)
    bounds: dict[int, tuple[int, int]] = field(default_factory=dict)
    has_versions: bool = False
    repeats: bool = False
    numbers: dict[tuple[int, str], int] = field(default_factory=dict)

    def fail(self, line: int, what: str) -> PtxError:
        """The error to raise for a line."""
        return PtxError(what, self.module.file, line)

    def site(self, operation: Instruction | Call, space: str) -> int:
        """The number of a new site; in a second version of a kernel (``repeats``), the number from the first."""
        key = id(operation), space
        if self.repeats and key in self.numbers:
            return self.numbers[key]
        self.numbers.setdefault(key, len(self.sites))
        stack = self.places(operation)
        file, source_line, column = next((frame for frame in stack if is_users(frame[0])), stack[0])
        chain_of_calls = stack if len(stack) > 1 else ()
        address = _address(operation) if isinstance(operation, Instruction) else ""
        array = self.array_of.get(id(operation))
        if array is not None and array.size is not None:
            self.bounds[len(self.sites)] = array.offset, array.size
        self.sites.append(
            Site(
                operation.line,
                operation.mnemonic,
                file,
                source_line,
                column,
                space,
                chain_of_calls,
                self.roles.get(id(operation)),
                address,
            )
        )
        return len(self.sites) - 1

    def function_address(self, name: str) -> int:
        """What code has as the address of a function."""
        return _function_address(self.functions[name])

    def known_site(self, operation: Instruction) -> int:
        """The site of an access that was lowered."""
        return next(n for (where, _), n in self.numbers.items() if where == id(operation))

    def array_start(self, site: int) -> int:
        """The offset in the shared window of the array that a site accesses; 0 if that is not known."""
        return self.bounds.get(site, (0, 0))[0]

    def places(self, operation: Instruction | Call) -> tuple[tuple[str, int, int], ...]:
        """(file, line, column) in the source of an operation and of each inlined call around it, innermost first.
        If no source is known: the line of the PTX if it was read from a file, else ``""`` and 0. Column 0 if that
        is not known.
        """
        if operation.loc is None:
            return ((self.module.file, operation.line, 0) if os.path.isabs(self.module.file) else ("", 0, 0),)
        return tuple((self.module.files.get(loc.file, ""), loc.line, loc.column) for loc in operation.loc.chain)

    def _define(self, *functions: Definition) -> str:
        """Add functions to the module; returns the name of the first."""
        self.definitions.update({function.name: function for function in functions})
        return functions[0].name

    def _access_of(
        self, store: bool, element: str, space: str, width: int, companions: CompanionMemory | None = None
    ) -> AccessKind:
        """A kind of access; const memory is checked as global memory."""
        space = "global" if space == "const" else space
        return AccessKind(store, element, space, width, self.local, companions)

    def access(self, store: bool, element: str, space: str, scalar: bool, carries: bool = False) -> str:
        """The name of the function for a checked access; with ``carries``, of the value and its companion."""
        companions = self.companion_memory(self) if carries and self.companion_memory is not None else None
        access = self._access_of(store, element, space, 1 if scalar else self.width, companions)
        key = (store, element, access.space, scalar, carries)
        if key not in self.accesses:
            if scalar:
                name = self._define(memory.scalar_ir(access, self.declarations))
            else:
                if companions is not None:
                    self.access(store, element, space, scalar)
                    self.companion_access(companions, store, element, access.space)
                name = self._define(*memory.vector_ir(access, self.declarations, self.outlined))
            self.accesses[key] = name
        return self.accesses[key]

    def stream_access(self, element: str, space: str) -> str:
        """The name of the function for a checked load that takes a pointer to a stream as its last argument."""
        access = self._access_of(False, element, space, self.width)
        return self._define(*memory.vector_ir(access, self.declarations, self.outlined, streams=True))

    def companion_access(self, companions: CompanionMemory, store: bool, element: str, space: str) -> str:
        """The name of the function that loads or stores companions of ``element`` under a mask."""
        bits = integer_of(element)
        return self._define(companions.out_of_line(store, bits, space, self.width, self.declarations))

    @property
    def local_stride(self) -> int:
        """Bytes of a thread's local memory."""
        return self.local.stride

    def row_access(self, store: bool, element: str, space: str, stride: int, carries: bool = False) -> str:
        """The name of the function for a checked access; with ``carries``, of the values and their companions.
        ``stride``: bytes, a multiple of the element's size."""
        companions = self.companion_memory(self) if carries and self.companion_memory is not None else None
        self.access(store, element, space, False, carries)
        access = self._access_of(store, element, space, self.width, companions)
        if stride == access.size:
            return self._define(memory.row_ir(access, self.declarations, self.outlined))
        inlining: Inlining = "alwaysinline" if self.is_short or self.outlined else "noinline"
        return self._define(*strided_ir(access, stride, self.declarations, self.outlined, inlining))

    def admit(
        self, space: str, kind: FaultKind, size: int, extent: int | None = None, by_offset: bool = False
    ) -> str:
        """The name of the function that returns which lanes may access ``extent`` (or ``size``) bytes, aligned to
        ``size``.

        ``by_offset``: it takes offsets from the start of the site's array (:meth:`array_start`), not addresses.
        """
        space = "global" if space == "const" else space
        admission = Admission(space, kind, size, size if extent is None else extent, by_offset)
        return self._define(*admit_ir(admission, self.width, self.local, self.declarations))


def shared_layout(module: Module, functions: list[Function]) -> tuple[dict[str, int], int]:
    """Offsets of the shared variables of a module and of the functions used, and the bytes of the static ones.

    Arrays of open size (dynamic shared memory) all begin where the static ones end, as on a GPU.
    """
    offsets: dict[str, int] = {}
    dynamic: list[Variable] = []
    end = 0
    variables = [v for v in module.variables.values() if v.space == "shared"]
    for function in functions:
        variables.extend(v for v in function.variables.values() if v.space == "shared")
    variables.sort(key=lambda variable: variable.name != RESERVED)
    if len(variables) > 1 and variables[1].name == RESERVED:  # of several functions
        variables = variables[:1] + [variable for variable in variables if variable.name != RESERVED]
    for variable in variables:
        if open_size(variable):
            dynamic.append(variable)
            continue
        end = align_up(end, variable.align)
        offsets[variable.name] = end
        end += (variable.count or 0) * TYPES[variable.type].bytes
    if dynamic:
        end = align_up(end, max(16, *(v.align for v in dynamic)))
    for variable in dynamic:
        offsets[variable.name] = end
    return offsets, end


def shared_variables(
    module: Module, functions: list[Function], offsets: dict[str, int]
) -> tuple[SharedVariable, ...]:
    """The shared variables of a module and of the functions used, by offset.

    Args:
        offsets: of :func:`shared_layout`.
    """
    found = {}
    for scope in (module.variables, *(function.variables for function in functions)):
        for variable in scope.values():
            if variable.space == "shared" and variable.name in offsets:
                size = None if open_size(variable) else (variable.count or 0) * TYPES[variable.type].bytes
                found[variable.name] = SharedVariable(variable.name, offsets[variable.name], size)
    return tuple(sorted(found.values(), key=lambda variable: variable.offset))


def open_size(variable: Variable) -> bool:
    """Whether an array gets its size from the launch: dynamic shared memory."""
    return variable.count is None or (variable.linkage == "extern" and variable.count == 0)


def _function_address(number: int) -> int:
    return _FIRST_FUNCTION + 16 * number


def module_variables(module: Module) -> tuple[GlobalVariable, ...]:
    """The module's variables in device memory, with their initial bytes.

    Raises:
        PtxError: an initial value that does not fit in its element, or an address where elements are not 64-bit.
    """
    found = []
    numbers = function_numbers(module)
    for variable in module.variables.values():
        if variable.space not in ("global", "const"):
            continue
        kind = TYPES[variable.type]
        count = variable.count if variable.count is not None else len(variable.initial)
        data = bytearray(min(count * kind.bytes, 1 << 32))
        relocations = []
        for i, value in enumerate(variable.initial):
            at = i * kind.bytes
            if isinstance(value, Symbol):
                if kind.bytes != 8:
                    raise PtxError(
                        f"an address in a .{variable.type} is not supported", module.file, variable.line
                    )
                if value.name in numbers:
                    data[at : at + 8] = _function_address(numbers[value.name]).to_bytes(8, "little")
                else:
                    relocations.append((at, value.name, value.offset))
            else:
                data[at : at + kind.bytes] = _encode(value, variable, module)
        found.append(
            GlobalVariable(
                variable.name,
                variable.space,
                count * kind.bytes,
                variable.align,
                bytes(data),
                tuple(relocations),
                variable.linkage == "extern",
            )
        )
    return tuple(found)


def _encode(value: Integer | Float, variable: Variable, module: Module) -> bytes:
    kind = TYPES[variable.type]
    if isinstance(value, Integer):
        return (value.value & ((1 << kind.bits) - 1)).to_bytes(kind.bytes, "little")
    if kind.kind == "float" and value.width == kind.bits:
        return value.bits.to_bytes(kind.bytes, "little")
    if kind.name == "f32" and value.width == 64:
        import struct

        number = struct.unpack("<d", value.bits.to_bytes(8, "little"))[0]
        try:
            return struct.pack("<f", number)
        except OverflowError:
            pass
    raise PtxError(f"an initial value of {variable.name} does not fit in .{kind.name}", module.file, variable.line)


def _address(operation: Instruction) -> str:
    """The address operand of an access, as text; empty if it has none."""
    for operand in operation.operands:
        if isinstance(operand, Address):
            base = operand.base
            return f"{base.value if isinstance(base, Integer) else base.name}+{operand.offset}"
    return ""
