"""Patches of numba-cuda: a finished link yields PTX, not a cubin; kernels have line information. Each module is
patched right after it is imported, because programs import numba.cuda themselves:

* ``cudadrv.driver._Linker.complete``: nvJitLink links LTO-IR to PTX, PTX is passed on unchanged, and a cubin,
  which is only machine code, is rejected with numba-cuda's LinkerError. Functions that the PTX calls are kept when
  LTO-IR is linked.
* ``cudadrv.driver.Function``: attributes such as the number of registers are computed when a program reads them,
  not at load, because that takes a second link.
* ``codegen.JITCUDACodegen``: keys in the cache on disk differ from those of kernels compiled for a GPU.
  ``codegen.CUDACodeLibrary``: kernels that count references are linked without line information.
* ``compiler.compile_cuda``: ``lineinfo`` is on, so that a finding can name a Python line. ``debuginfo.DIBuilder``
  makes this information link with NVRTC's code, and ``debuginfo.CUDADIBuilder`` omits variables from it.
* ``lowering``, ``cudaimpl`` and ``cudadrv.nvvm``: the symbol of a shared array contains its variable, shape and
  dtype (:mod:`kcheck.driver.names`).
* ``dispatcher._Kernel``: NVVM compiles a new kernel once (:mod:`kcheck.driver.assembly`).
* ``dispatcher.CUDADispatcher``: ``call`` compares the arguments with an explicit signature
  (:mod:`kcheck.driver.signatures`), and ``compile`` runs without garbage collection.
* ``lowering.Lower``, ``core.callconv.CUDACallConv`` and ``codegen.CUDACodeLibrary``: ``raise`` and ``assert`` are
  reported (:mod:`kcheck.driver.raising`).
* ``core.targetconfig``, ``core.base`` and ``debuginfo``: the same code in less time
  (:mod:`kcheck.driver.compile_speed`).
* ``dispatcher.launch`` and ``cudadrv.driver.Driver``: a call raises what a signal handler raises during it
  (:mod:`kcheck.driver.signals`).
"""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kcheck.cpu.interrupts import handled_signal
from kcheck.driver.after_import import patch_after_import
from kcheck.driver.assembly import patch_assembly, patch_kernels
from kcheck.driver.compile_speed import patch_locations, patch_options, patch_sizes
from kcheck.driver.cubin import with_link_options
from kcheck.driver.names import patch_arrays, patch_lowering, patch_nvvm
from kcheck.driver.raising import patch_callconv, patch_libraries, patch_raises
from kcheck.driver.signals import guarded
from kcheck.driver.signatures import patch_dispatcher
from kcheck.errors import DeviceUnavailable
from kcheck.interpreter import no_collection, with_room
from kcheck.version import __version__

NO_SOURCE = "Could not find source for function"
"""Numba's warning about line information, which programs see only if they request that."""

# Archives are not linked. A linker would search libcudadevrt for undefined functions, but lowered code implements
# these itself.
_SEARCHED = frozenset({"library"})


def patch_driver(driver: Any) -> None:
    """Change ``numba.cuda.cudadrv.driver``: links yield PTX; attributes of kernels are computed on access."""
    driver._Linker.complete = _complete_for(driver)

    class LazyFunction(driver.CudaPythonFunction):  # type: ignore[misc]
        """A kernel whose attributes are computed on access."""

        def __init__(self, module: Any, kernel: Any, name: str) -> None:
            self.module = module
            self.kernel = kernel
            self.handle = kernel.handle
            self.name = name

        @functools.cached_property
        def attrs(self) -> Any:
            read = self.kernel.attributes
            return driver.FuncAttr(
                regs=read.num_regs,
                const=read.const_size_bytes,
                local=read.local_size_bytes,
                shared=read.shared_size_bytes,
                maxthreads=read.max_threads_per_block,
            )

    driver.Function = LazyFunction


def _complete_for(driver: Any) -> Callable[[Any], Any]:
    def complete(self: Any) -> Any:
        """Finish the link, and return an ObjectCode of PTX."""
        texts: list[str] = []
        linked = [code for code in self._object_codes if code.code_type not in ("ptx", *_SEARCHED)]
        self._info_log = self._error_log = ""
        self.linker = self
        self._complete = True
        for code in linked:
            if code.code_type == "cubin":
                raise driver.LinkerError(
                    f"{code.name}: machine code cannot run on kcheck's cpu device; link its PTX or LTO-IR instead"
                )
        given = [_text(code.code) for code in self._object_codes if code.code_type == "ptx"]
        if linked:
            if called := called_from(given):
                linked.append(driver.nvrtc.compile(_keep(called), "kcheck_keep.cu", self.cc, ltoir=True)[0])
            linker = driver.Linker(*linked, options=self._get_linker_options(ptx=True))
            try:
                texts.append(_text(linker.link("ptx").code))
                self._info_log, self._error_log = linker.get_info_log(), linker.get_error_log()
            finally:
                linker.close()
        texts += given
        ptx = with_link_options("\n".join(texts), self.max_registers)
        return driver.ObjectCode.from_ptx(ptx.encode())

    return complete


_FUNCTION = re.compile(r"(\.extern\s+)?\.func\s*(?:\([^)]*\)\s*)?([A-Za-z_]\w*)")


def called_from(texts: Sequence[str]) -> list[str]:
    """The functions that the PTX declares but does not define, so that other code must define them, sorted."""
    from kcheck.ptx.lowering.calls import (
        PROVIDED,  # imports all of kcheck.ptx, which a run does not need if its code is cached
    )

    found = [match.groups() for text in texts for match in _FUNCTION.finditer(text)]
    defined = {name for extern, name in found if not extern}
    return sorted({name for extern, name in found if extern} - defined - set(PROVIDED))


def _keep(names: Sequence[str]) -> str:
    """CUDA C++ that keeps functions through link-time optimization, which does not see the calls in PTX."""
    declared = "".join(f'extern "C" __device__ void {name}();\n' for name in names)
    stored = "".join(f"to[{n}] = (void*){name};\n" for n, name in enumerate(names))
    return f'{declared}extern "C" __global__ void kcheck_keep(void** to) {{\n{stored}}}\n'


def _text(code: bytes | str) -> str:
    text = code if isinstance(code, str) else code.decode()
    return text.rstrip("\0")


def patch_linker_lines(driver: Any) -> None:
    """Turn on line information in links: numba-cuda leaves it off, even if the kernel was compiled with it."""
    start = driver._Linker.__init__

    @functools.wraps(start)
    def start_with_lines(self: Any, *arguments: Any, **options: Any) -> None:
        start(self, *arguments, **options)
        self.lineinfo = True

    driver._Linker.__init__ = start_with_lines


def patch_driver_signals(driver: Any) -> None:
    """Make numba-cuda's driver calls raise what a signal handler raises during them."""
    plain = driver.Driver._cuda_python_wrap_fn

    def wrap(self: Any, name: str) -> Any:
        call = guarded(plain(self, name))
        setattr(self, name, call)
        return call

    driver.Driver._cuda_python_wrap_fn = wrap


def patch_launch(dispatcher: Any) -> None:
    """Make a launch raise what a signal handler raises while the kernel runs."""
    dispatcher.launch = guarded(dispatcher.launch)


def patch_compiler(compiler: Any) -> None:
    """Change ``numba.cuda.compiler``: compile with line information."""
    plain = compiler.compile_cuda

    @functools.wraps(plain)
    def compile_with_lines(
        pyfunc: Any, return_type: Any, args: Any, debug: bool = False, lineinfo: bool = False, **options: Any
    ) -> Any:
        if debug or lineinfo:  # debug includes line information, and the two options cannot be combined
            return plain(pyfunc, return_type, args, debug=debug, lineinfo=lineinfo, **options)
        try:
            with warnings.catch_warnings():
                # A function that Numba itself writes, such as the loop of a @vectorize, has no source.
                warnings.filterwarnings("ignore", message=NO_SOURCE)
                return plain(pyfunc, return_type, args, lineinfo=True, **options)
        except Exception as error:
            if handled_signal(error) is not None:
                raise
        # If only the line information fails (numba-cuda cannot describe a tuple of empty tuples), compile without
        # it. If the code fails anyway, it fails again, with numba-cuda's own message.
        return plain(pyfunc, return_type, args, lineinfo=False, **options)

    compiler.compile_cuda = compile_with_lines


def patch_debuginfo(debuginfo: Any) -> None:
    """Change ``numba.cuda.debuginfo``: make line information link with NVRTC's code, such as bfloat16's functions.

    Modules of both state the version of their debug information. In numba-cuda's modules a mismatch is a warning,
    in NVRTC's an error, and LTO rejects modules that disagree on that (LLVM, "Module Flags Metadata").
    """
    is_error, is_warning = 1, 2

    def set_module_flags(self: Any) -> None:
        for behavior, name, value in (
            (is_warning, "Dwarf Version", self.DWARF_VERSION),
            (is_error, "Debug Info Version", self.DEBUG_INFO_VERSION),
        ):
            if value is not None:
                flag = self.module.add_metadata([self._const_int(behavior), name, self._const_int(value)])
                flags = self.module.add_named_metadata("llvm.module.flags")
                if flag not in flags.operands:
                    flags.add(flag)

    debuginfo.DIBuilder._set_module_flags = set_module_flags


def patch_variables(debuginfo: Any) -> None:
    """Change ``numba.cuda.debuginfo``: line information without ``debug=True`` does not describe variables.

    PTX with only line information has no variables, but libNVVM rejects some descriptions ("Symbol name with
    unsupported characters"), so that a kernel that compiles on a GPU would not compile here.
    """
    builder = debuginfo.CUDADIBuilder

    def with_debug_only(plain: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(plain)
        def describe(self: Any, *arguments: Any, **options: Any) -> None:
            if self.emission_kind == "FullDebug":
                plain(self, *arguments, **options)

        return describe

    builder.mark_variable = with_debug_only(builder.mark_variable)
    builder.update_variable = with_debug_only(builder.update_variable)


def patch_codegen(codegen: Any) -> None:
    """Change ``numba.cuda.codegen``: its disk cache is separate for each version of kcheck, because a kernel
    cached on a GPU is machine code; and kernels that count references are linked without line information.

    numba-cuda's calls of its runtime (``NRT_incref``) have no source location. LLVM rejects the module once LTO
    inlines them: every call in a function with debug information must have one.
    """
    plain_tuple, plain_cubin = codegen.JITCUDACodegen.magic_tuple, codegen.CUDACodeLibrary.get_cubin

    def magic_tuple(self: Any) -> Any:
        return (*plain_tuple(self), f"kcheck {__version__}")

    def get_cubin(self: Any, cc: Any = None) -> Any:
        if codegen.NRT_LIBRARY in self._linking_files:
            self._llvm_strs = [_without_lines(text) for text in self.llvm_strs]
            self._ltoir_cache.clear()
        return plain_cubin(self, cc)

    codegen.JITCUDACodegen.magic_tuple = magic_tuple
    codegen.CUDACodeLibrary.get_cubin = get_cubin


def _without_lines(ir: str) -> str:
    """LLVM IR text without debug information."""
    ir = re.sub(r"(,)? !dbg ![0-9]+", "", ir)
    return re.sub(r"^!llvm\.dbg\.cu = .*$|^.*call void @\"?llvm\.dbg\..*$", "", ir, flags=re.MULTILINE)


def patch_compilation(dispatcher: Any) -> None:
    """Change ``numba.cuda.dispatcher``: compile a kernel without garbage collection, and with room for frames.

    Numba creates many objects, which the collector would visit again and again.
    """
    plain = with_room(dispatcher.CUDADispatcher.compile)

    @functools.wraps(plain)
    def compiled(self: Any, signature: Any) -> Any:
        with no_collection():
            return plain(self, signature)

    dispatcher.CUDADispatcher.compile = compiled


PATCHES: Mapping[str, tuple[Callable[[Any], None], ...]] = {
    "numba.cuda.cudadrv.driver": (patch_driver, patch_linker_lines, patch_driver_signals),
    "numba.cuda.codegen": (patch_codegen, patch_libraries, patch_assembly),
    "numba.cuda.compiler": (patch_compiler,),
    "numba.cuda.core.base": (patch_sizes,),
    "numba.cuda.core.callconv": (patch_callconv,),
    "numba.cuda.core.targetconfig": (patch_options,),
    "numba.cuda.debuginfo": (patch_debuginfo, patch_variables, patch_locations),
    "numba.cuda.lowering": (patch_lowering, patch_raises),
    "numba.cuda.cudaimpl": (patch_arrays,),
    "numba.cuda.cudadrv.nvvm": (patch_nvvm,),
    "numba.cuda.dispatcher": (patch_dispatcher, patch_launch, patch_compilation, patch_kernels),
}


def watch_imports() -> None:
    """Patch numba.cuda when it is imported.

    Raises:
        DeviceUnavailable: it is already imported, so it has already looked for a driver.
    """
    for name in PATCHES:
        if name in sys.modules:
            raise DeviceUnavailable(
                f"{name} is already imported: choose the cpu device before numba.cuda is first imported"
            )
    patch_after_import(PATCHES)
