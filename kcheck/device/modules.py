"""PTX on the device: loads it, launches its kernels, and resets its variables before each case."""

from __future__ import annotations

import ctypes
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from importlib import import_module
from typing import Any, Literal, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.device.plan import Geometry
from kcheck.model import KernelRef, Span
from kcheck.model.compiled import CompiledKernel, Launched, Signature

_VARIABLE = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|common)\s+)*\.global\b[^;{=]*?"
    r"([A-Za-z_$%][\w$]*)\s*(?:\[[^\]]*\]\s*)*(?:=[^;]*)?;",
    re.MULTILINE,
)
_NAME = re.compile(r"[A-Za-z_$%][\w$]*")
_DRIVER = "cuda.bindings.driver"
_NOT_FOUND = 500
_WITHOUT_ASKING = 48 << 10
"""Bytes of shared memory that a launch may use without setting an attribute of the kernel first."""
_SHARED_SIZE = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def address(array: Any) -> int:
    """The address of a device array of Numba or of another library."""
    pointer = getattr(array, "device_ctypes_pointer", None)
    if pointer is not None:
        return int(pointer.value or 0)
    return int(array.__cuda_array_interface__["data"][0])


class DriverError(Exception):
    """A call of the CUDA driver that failed; ``code`` is its CUresult."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call} returned {code}")
        self.code = code


Form: TypeAlias = Literal["pointer", "word", "integer", "float", "bits", "bytes", "class"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a compiled kernel.

    Attributes:
        offset, size: in bytes.
        form: ``word`` is 8 bytes that may be a pointer or an integer; ``bits`` is of any type; ``bytes`` is an
            array of bytes, as PTX declares a struct and a 16-bit float; ``class`` is a class of C++.
        element: the dtype of a scalar, or of what a pointer points to; empty if it is unknown or not a dtype.
        told: the parameter in messages, such as ``const float* x`` or ``.u64 softmax_param_0``.
        space: the state space to which a pointer points; empty if it is not declared.
        alignment: of a class, in bytes.
        members: of a class: those that the spec names, by name, with their offsets in it. None for a member that
            it does not have.
    """

    offset: int
    size: int
    form: Form
    element: str
    told: str
    space: str = ""
    alignment: int = 1
    members: Mapping[str, Parameter | None] | None = None


@dataclass(frozen=True, eq=False)
class Unit:
    """A compiled kernel.

    Attributes:
        kernel: its reference in the spec; ``place`` is where it is defined.
        instance: its name in reports, such as ``softmax<float, 4>``.
        entry: its name in the PTX.
        for_target: compiles it for another target; None if it cannot be compiled again. Raises
            :class:`kcheck.device.kinds.base.NotCompiled`.
    """

    kernel: KernelRef
    place: Span
    instance: str
    target: str
    ptx: str
    entry: str
    parameters: tuple[Parameter, ...]
    for_target: Callable[[str], Unit] | None = field(default=None, repr=False)

    def code(self, signature: Signature) -> CompiledKernel:
        """The kernel as a record for the linter, not assembled."""
        return CompiledKernel(self.instance, self.place, signature, self.target, self.entry, self.ptx)


@dataclass(frozen=True, eq=False, slots=True)
class UnitRun:
    """One launch of a unit: its threads per block, dynamic shared memory in bytes, and types of arguments."""

    unit: Unit
    block: tuple[int, int, int]
    shared: int
    signature: Signature | None

    def launched(self) -> Launched:
        """The record of the launch."""
        unit, signature = self.unit, self.signature or ()
        compile_for = unit.for_target
        again = None if compile_for is None else lambda target: compile_for(target).code(signature)
        code = unit.code(signature)
        return Launched(unit.instance, unit.place, self.signature, self.block, self.shared, code, again=again)


@dataclass
class _Loaded:
    """A module on the device.

    Attributes:
        first: the initial bytes of its variables, by address; ``names``: their names.
        again: whether it must be loaded again instead, because their addresses are unknown.
    """

    library: Any
    first: dict[int, bytes] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    again: bool = False
    kernels: dict[str, Any] = field(default_factory=dict)
    launched: bool = False


class Modules:
    """The loaded modules, by their text, and what was launched since :meth:`begin`.

    Attributes:
        took: is called with the seconds that a compilation during a launch took.
        names_object: is called with the handle of a texture or surface object, and the name, shape and dtype of
            the array of which it has a copy.
        given: the addresses of variables that a spec sets, so that changes of them are not remarkable.
        keeps: launches find variables in global memory as earlier launches left them.
        holders: the unit whose module has the newest value of a variable, by the variable's name: a launcher's
            kernels have a module each, but share the variables of their file.
    """

    def __init__(self) -> None:
        self.took: Callable[[float], None] = lambda seconds: None
        self.names_object: Callable[[int, str, tuple[int, ...], str], None] = lambda *named: None
        self.given: set[int] = set()
        self.keeps = False
        self.holders: dict[str, Unit] = {}
        self._loaded: dict[str, _Loaded] = {}
        self.runs: list[UnitRun] = []

    def begin(self) -> None:
        """Forget earlier launches. Reset variables in global memory to their initial values, unless ``keeps``."""
        self.runs.clear()
        if self.keeps:
            return
        self.holders.clear()
        for text, loaded in tuple(self._loaded.items()):
            if loaded.launched and loaded.again:
                call("cuLibraryUnload", loaded.library)
                del self._loaded[text]
            elif loaded.launched:
                for address, content in loaded.first.items():
                    call("cuMemcpyHtoD", address, content, len(content))
                loaded.launched = False

    def restore(self) -> bool:
        """Reset variables in global memory to their initial values, before the last launches are repeated.

        Returns:
            False if a module must be loaded again instead.
        """
        launched = [loaded for loaded in self._loaded.values() if loaded.launched]
        for loaded in () if self.keeps else launched:
            for address, content in loaded.first.items():
                call("cuMemcpyHtoD", address, content, len(content))
        return not any(loaded.again for loaded in launched)

    def changed(self) -> tuple[str, ...]:
        """The variables in global memory that the last launches left changed, without modules that must be loaded
        again."""
        return tuple(
            loaded.names[address]
            for loaded in self._loaded.values()
            if loaded.launched and not loaded.again
            for address, content in loaded.first.items()
            if address not in self.given and _bytes_at(address, len(content)) != content
        )

    def variable(self, unit: Unit, symbol: str) -> tuple[int, int]:
        """Address and size, in bytes, of a variable of a unit, by its name in the PTX.

        Raises:
            DriverError: a GPU's driver does not know it, because it is not ``.visible``.
        """
        import_module("numba.cuda").current_context()
        loaded = self._load(unit.ptx)
        loaded.launched = True
        place, size = call("cuLibraryGetGlobal", loaded.library, symbol.encode())
        return int(place), int(size)

    def change(self, unit: Unit, symbol: str) -> tuple[int, int]:
        """As :meth:`variable`, for a variable that the caller changes: :meth:`begin` resets it."""
        place, size = self.variable(unit, symbol)
        loaded = self._loaded[unit.ptx]
        if place not in loaded.first:
            loaded.first[place], loaded.names[place] = _bytes_at(place, size), symbol
        return place, size

    def launch(
        self, run: UnitRun, shape: Geometry, content: bytes, *, cooperative: bool = False, stream: int = 0
    ) -> None:
        """Launch a kernel. ``content``: its parameters, from :func:`kcheck.device.kinds.entry.pack`.

        Raises:
            DriverError: the driver rejects the module or the launch, or the kernel failed.
        """
        import_module("numba.cuda").current_context()  # creates the context of this thread
        unit = run.unit
        loaded = self._load(unit.ptx)
        loaded.launched = True
        kernel = loaded.kernels.get(unit.entry)
        if kernel is None:
            kernel = loaded.kernels[unit.entry] = call("cuLibraryGetKernel", loaded.library, unit.entry.encode())
        if shape.shared > _WITHOUT_ASKING:
            driver: Any = import_module(_DRIVER)
            attribute = driver.CUfunction_attribute(_SHARED_SIZE)
            call("cuKernelSetAttribute", attribute, shape.shared, kernel, call("cuCtxGetDevice"))
        function = call("cuKernelGetFunction", kernel)
        held = ctypes.create_string_buffer(content, max(len(content), 1))
        base = ctypes.addressof(held)
        slots = (ctypes.c_void_p * max(len(unit.parameters), 1))(*(base + p.offset for p in unit.parameters))
        where = (*shape.grid, *shape.block, shape.shared, stream, ctypes.addressof(slots))
        self.runs.append(run)
        if cooperative:
            call("cuLaunchCooperativeKernel", function, *where)
        else:
            call("cuLaunchKernel", function, *where, 0)

    def _load(self, text: str) -> _Loaded:
        loaded = self._loaded.get(text)
        if loaded is None:
            library = call("cuLibraryLoadData", text.encode() + b"\0", [], [], 0, [], [], 0)
            loaded = self._loaded[text] = _Loaded(library)
            self._remember(loaded, text)
        return loaded

    def _remember(self, loaded: _Loaded, text: str) -> None:
        for name in used_variables(text):
            try:
                address, size = call("cuLibraryGetGlobal", loaded.library, name.encode())
            except DriverError as error:
                if error.code != _NOT_FOUND:
                    raise
                loaded.again = True  # a GPU's driver does not know variables that are not .visible
                return
            loaded.first[int(address)] = _bytes_at(int(address), size)
            loaded.names[int(address)] = name


def used_variables(ptx: str) -> list[str]:
    """The variables in global memory that anything in the PTX mentions: a kernel cannot change others. CUB's
    headers declare a thousand constants, and almost none is used."""
    found = _VARIABLE.findall(ptx)
    mentions = Counter(_NAME.findall(ptx)) if found else Counter[str]()
    return [name for name in found if mentions[name] > 1]


def _bytes_at(address: int, size: int) -> bytes:
    content = bytearray(size)
    call("cuMemcpyDtoH", content, address, size)
    return bytes(content)


def call(name: str, *arguments: Any) -> Any:
    """Call the CUDA driver; returns its results without the code.

    Raises:
        DriverError: the call failed.
    """
    driver = sys.modules.get(_DRIVER) or import_module(_DRIVER)  # thousands of calls: importing takes longer
    results: Sequence[Any] = getattr(driver, name)(*arguments)
    code, *values = results
    if int(code):
        raise DriverError(name, int(code))
    return values[0] if len(values) == 1 else values
