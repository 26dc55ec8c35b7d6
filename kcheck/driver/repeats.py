"""Launches that repeat an earlier launch of a kernel go from numba-cuda straight to the executor.

numba-cuda passes a launch through cuda.core, cuda.bindings and C to the driver, which is Python again: half of the
time of an empty launch. A launch that differs from the kernel's last one only in the values of its arguments does
not need this: the driver has accepted its shape, and the bytes of its parameters are numbers and the fields of
arrays, which numba-cuda computes once for each array. All other launches go through numba-cuda's own code: the
first one, those in other streams, and those with arguments that have to be copied to the device or that an
extension changes.
"""

from __future__ import annotations

import functools
import itertools
import os
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from kcheck.cpu.executor import Ending, KernelLaunch
from kcheck.cpu.interrupts import raised_by_handler, without_launch
from kcheck.cpu.tiers import LaunchedAlone
from kcheck.dataclass import dataclass
from kcheck.driver.after_import import patch_after_import
from kcheck.driver.launch import RESULTS
from kcheck.driver.library import LibraryKernel, LoadedLibraries, Shape
from kcheck.driver.result import DriverFault

T = TypeVar("T")
R = TypeVar("R")

_NUMBERS = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}
"""Numba's names of the types of numbers, and their codes in :mod:`struct`."""

_FIELDS = 5
"""The words of an array before its shape and strides: two unused pointers, its size, bytes per item, address."""

_RECIPE, _WORDS = "_kcheck_recipe", "_kcheck_words"
"""Attributes of numba-cuda's kernels and arrays."""


@dataclass(slots=True)
class _Recipe:
    """How to repeat a launch.

    Attributes:
        wanted: the arguments of ``_Kernel.launch``: grid, block, stream and dynamic shared memory.
        handle: of the kernel.
        accepted: the shape that the driver accepted.
        arrays: for each argument, its size in bytes if it is an array, else 0.
        layout: of the parameters. An array is a field of bytes.
        process: the process that launched: a forked child has to ask the driver.
        last: the last launch, if the executor can run it again with other parameters.
    """

    wanted: tuple[Any, Any, Any, Any]
    handle: int
    accepted: Shape
    arrays: tuple[int, ...]
    layout: struct.Struct
    process: int
    last: LaunchedAlone | None = None


class Repeats:
    """Launches without the driver.

    Args:
        code: the driver's kernels.
        wait: waits for the callbacks of a stream.
    """

    def __init__(self, code: LoadedLibraries, wait: Callable[[int], None]) -> None:
        self._code = code
        self._wait = wait

    def patch(self) -> None:
        """Patch modules of ``numba.cuda`` when they are imported."""
        patches = {
            "numba.cuda.dispatcher": (self._patch_launch,),
            "numba.cuda.cudadrv.driver": (self._patch_context,),
            "numba.cuda.api": (self._patch_synchronize,),
        }
        patch_after_import(patches)

    def _patch_context(self, driver: Any) -> None:
        self._patch_synchronize(driver.Context)

    def _patch_synchronize(self, owner: Any) -> None:
        """Wait without numba-cuda's search for the context, on a thread that has one. ``owner``: of the function,
        the class of contexts or ``numba.cuda.api``."""
        plain, process = owner.synchronize, os.getpid()

        @functools.wraps(plain)
        def synchronize(*context: Any) -> None:
            if process != os.getpid() or not self._code.machine.context_stack():
                plain(*context)
            else:
                _raising(self._wait, 0)

        owner.synchronize = synchronize

    def _patch_launch(self, dispatcher: Any) -> None:
        from numba.cuda.cudadrv.devicearray import DeviceNDArray

        plain = dispatcher._Kernel.launch

        @functools.wraps(plain)
        def launch(
            kernel: Any, args: Sequence[Any], griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0
        ) -> None:
            wanted = griddim, blockdim, stream, sharedmem
            recipe: _Recipe | None = kernel.__dict__.get(_RECIPE)
            is_stale = recipe is None or recipe.wanted != wanted
            if recipe is not None and not is_stale and not kernel.extensions:
                params = _packed(recipe, args, DeviceNDArray)
                if params is not None and self._repeat(recipe, params):
                    return
                is_stale = params is not None
            try:
                plain(kernel, args, griddim, blockdim, stream, sharedmem)
            finally:
                self._code.ended.pop(threading.get_ident(), None)
            if is_stale:
                kernel.__dict__[_RECIPE] = self._recipe(kernel, wanted)

        dispatcher._Kernel.launch = launch

    def _recipe(self, kernel: Any, wanted: tuple[Any, Any, Any, Any]) -> _Recipe | None:
        """For a kernel that was just launched; None if its launches have to go through the driver."""
        stream = wanted[2]
        if kernel.debug or kernel.cooperative or int(getattr(stream, "handle", stream)):
            return None
        try:
            handle = int(kernel._codelibrary.get_cufunc().kernel.handle)
            known = self._code.kernels[handle]
        except DriverFault:
            return None
        layout = _layout(kernel.argument_types, known)
        if known.accepted is None or layout is None:
            return None
        return _Recipe(wanted, handle, known.accepted, *layout, os.getpid())

    def _again(self, last: LaunchedAlone, params: bytes) -> Ending | None:
        self._wait(0)
        return self._code.machine.executor.again(last, params)

    def _repeat(self, recipe: _Recipe, params: bytes) -> bool:
        """Launch, and return whether the launch succeeded. If it did not run, or failed, it has to go through the
        driver, which returns the error without running it again.

        Raises:
            BaseException: what a signal handler raised meanwhile.
        """
        code = self._code
        executor = code.machine.executor
        try:
            kernel = code.kernels[recipe.handle]
        except DriverFault:  # unloaded meanwhile
            return False
        is_accepted = kernel.accepted == recipe.accepted and code.machine.context_stack()
        if not is_accepted or recipe.process != os.getpid():
            return False
        ending = None if recipe.last is None else _raising(functools.partial(self._again, recipe.last), params)
        if ending is None:
            _raising(self._wait, 0)
            grid, block, shared, cooperative = recipe.accepted
            launch = KernelLaunch(kernel.module, kernel.entry.name, params, grid, block, shared, cooperative)
            ending = _raising(executor.launch, launch)
            last = executor.last  # of another thread's launch, perhaps
            recipe.last = last if last is not None and last.launch is launch else None
        if ending is Ending.FINISHED:
            return True
        raised, executor.raised = executor.raised, None
        if raised is not None:
            raise without_launch(raised)
        code.ended[threading.get_ident()] = RESULTS[ending]
        return False


def _raising(function: Callable[[T], R], argument: T) -> R:
    """The result of a call. What a signal handler raises meanwhile has a traceback that begins at the handler, as
    if the call had gone through the driver."""
    try:
        return function(argument)
    except BaseException as error:
        raised = raised_by_handler(error)
        if raised is None:
            raise
    raise without_launch(raised)


def _packed(recipe: _Recipe, args: Sequence[Any], array: type) -> bytes | None:
    """The bytes of the parameters. None if numba-cuda has to convert an argument, or to reject it."""
    fields = []
    try:
        for size, value in zip(recipe.arrays, args, strict=True):
            if size:
                if type(value) is not array:
                    return None
                value = value.__dict__.get(_WORDS) or _words(value)
                if len(value) != size:
                    return None
            fields.append(value)
        return recipe.layout.pack(*fields)
    except (struct.error, OverflowError, TypeError, ValueError):
        return None


def _words(array: Any) -> bytes:
    """The fields of an array in a kernel's parameters, which numba-cuda computes once for each array, too."""
    view = array._strided_memory_view_shim
    numbers = (view.size, view.dtype.itemsize, view.ptr, *view.shape, *view._layout.strides_in_bytes)
    words = struct.pack(f"<{len(numbers) + 2}q", 0, 0, *numbers)
    array.__dict__[_WORDS] = words
    return words


def _layout(kinds: Iterable[Any], kernel: LibraryKernel) -> tuple[tuple[int, ...], struct.Struct] | None:
    """The sizes of the arrays among the arguments, 0 for numbers, and the layout of the parameters; None if an
    argument is of another type, or the kernel's parameters are not as expected.

    Args:
        kinds: Numba's types of the arguments.
    """
    from numba.core.types import Array

    sizes, codes, end = [], ["<"], 0
    slots = iter(kernel.entry.params)
    for kind in kinds:
        code = _NUMBERS.get(str(kind))
        if code is None and type(kind) is not Array:
            return None
        words = 0 if code else _FIELDS + 2 * kind.ndim
        size = struct.calcsize(f"<{code}") if code else 8
        places = list(itertools.islice(slots, words or 1))
        if not places or places != [(places[0][0] + n * size, size) for n in range(words or 1)]:
            return None
        begin = places[0][0]
        codes.append(f"{begin - end}x{code or f'{words * size}s'}")
        sizes.append(words * size)
        end = begin + size * len(places)
    if list(slots):
        return None
    codes.append(f"{kernel.entry.param_bytes - end}x")
    return tuple(sizes), struct.Struct("".join(codes))
