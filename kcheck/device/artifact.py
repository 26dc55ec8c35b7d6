"""Compiles kernels for a GPU without a GPU: LTO PTX by NVVM and nvJitLink, resources by ptxas, machine code by
nvdisasm if it is installed.

On the cpu device, the PTX that ran is used. Numba's simulator replaces ``numba.cuda`` for the whole process, so
a run on the simulator compiles in a child process, once per spec, in parallel with the cases: ``python -m
kcheck.device.artifact`` reads a request and writes its answer, as pickles.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from kcheck.device.assembler import capability, disassembled, entry_resources
from kcheck.device.child import Child
from kcheck.device.disassembler import ToolFailed
from kcheck.driver.compile_errors import explain
from kcheck.driver.link import patch_variables
from kcheck.errors import InternalError, KernelError
from kcheck.model import Fault, FunctionRef, KernelRef, Span
from kcheck.model.compiled import ArrayType, CompiledKernel, ScalarType, Signature
from kcheck.span import as_typed
from kcheck.specfile.load import load_function

_LIBRARIES = ("nvvm", "nvJitLink", "nvrtc")  # numba-cuda compiles with these; its extras cu12 and cu13 have them


@functools.cache
def no_compiler() -> str:
    """Why kernels cannot be compiled on this machine, in one clause; empty if they can. Does not import Numba."""
    if importlib.util.find_spec("numba_cuda") is None:
        return "numba-cuda is not installed; pip install 'kcheck[cu13]'"
    try:
        pathfinder = import_module("cuda.pathfinder")
        for library in _LIBRARIES:
            pathfinder.load_nvidia_dynamic_lib(library)
    except (ImportError, RuntimeError):  # the finder's own errors are RuntimeErrors
        return "numba-cuda's compiler is not installed; pip install 'kcheck[cu13]'"
    return ""


def compile_here(
    root: str, kernel: FunctionRef, signatures: Sequence[Signature], targets: Sequence[str], *, sass: bool = False
) -> tuple[CompiledKernel, ...]:
    """Like :func:`compile_kernel`, in this process, which runs the cpu device; its compiled kernels are reused.

    Raises:
        KernelError: the kernel's file cannot be loaded.
    """
    dispatcher = load_function(root, kernel)
    if not hasattr(dispatcher, "py_func"):
        raise _no_kernel(kernel)
    return compile_kernel(dispatcher, signatures, targets, is_linked_as_ptx=True, sass=sass, name=kernel.name)


def _no_kernel(function: FunctionRef) -> KernelError:
    return KernelError(function.span, f"{function} is not a @cuda.jit kernel")


_SECONDS = 600  # for the child; a kernel usually compiles in 1 s


class Compilation:
    """Compiles a kernel like :func:`compile_kernel`, in a child process with the real ``numba.cuda``.

    It starts at once and runs in parallel with the cases; :meth:`result` waits for it, :meth:`cancel` ends it.

    Args:
        root: the root of the project.
        signatures: the argument types to compile the kernel for.
        targets: such as ``sm_80``.
        sass: include the machine code.
    """

    def __init__(
        self,
        root: str,
        kernel: FunctionRef,
        signatures: Sequence[Signature],
        targets: Sequence[str],
        *,
        sass: bool = False,
    ) -> None:
        self._kernel = kernel
        self._request = {
            "root": root,
            "kernel": replace(kernel, given=None),
            "signatures": list(signatures),
            "targets": list(targets),
            "sass": sass,
        }
        self._child = Child(__name__, self._request | {"lineinfo": True})

    @property
    def running(self) -> bool:
        """Whether :meth:`result` would have to wait."""
        return self._child.running

    def result(self) -> tuple[CompiledKernel, ...]:
        """The kernels, one for each target and signature.

        Raises:
            KernelError: the child cannot load the kernel's file.
            InternalError: the child ended without an answer.
        """
        kernels = self._answer()
        if any(text in kernel.problem for kernel in kernels for text in _NO_LINES):
            self._child = Child(__name__, self._request | {"lineinfo": False})
            kernels = self._answer()
        return kernels

    def cancel(self) -> None:
        """End the child."""
        self._child.kill()

    def _answer(self) -> tuple[CompiledKernel, ...]:
        try:
            code, content, log = self._child.wait(_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise InternalError(f"compiling {self._kernel} took more than {_SECONDS} s") from error
        if code != 0:
            raise InternalError(f"the compiler process for {self._kernel} ended with {code}\n{log}")
        answer: tuple[CompiledKernel, ...] | Fault = pickle.loads(content)
        if isinstance(answer, Fault):
            raise KernelError(answer.span, answer.what, answer.fix)
        return answer


_NO_LINES = ("Debug Info Version", "!dbg location")
"""Parts of the linker's error for a kernel that cannot have line tables: bfloat16's shims have a different debug
version, and calls of numba-cuda's runtime have no line. The process cannot link anything afterward, so the attempt
without lines needs a new process."""


def compile_kernel(
    dispatcher: Any,
    signatures: Sequence[Signature],
    targets: Sequence[str],
    lineinfo: bool = True,
    is_linked_as_ptx: bool = False,
    sass: bool = False,
    name: str = "",
) -> tuple[CompiledKernel, ...]:
    """Compile a ``@cuda.jit`` kernel for each signature and target. If one does not compile, ``problem`` says why.

    Args:
        dispatcher: a dispatcher of the real ``numba.cuda``, not of the simulator.
        targets: such as ``sm_80``.
        is_linked_as_ptx: whether kernels are linked to PTX in this process, so that those for the device's own
            target do not need a second compilation.
        sass: include the machine code.
        name: the kernel's name in its file, if it differs from the function's.
    """
    code = dispatcher.py_func.__code__
    place = Span(as_typed(os.path.realpath(code.co_filename)), code.co_firstlineno)
    made = []
    for target in targets:
        for signature in signatures:
            kernel = CompiledKernel(name or dispatcher.py_func.__name__, place, signature, target)
            compiled = _compile(dispatcher, kernel, lineinfo, is_linked_as_ptx)
            if sass and not compiled.problem:
                compiled = disassembled(compiled, _max_registers(dispatcher))
            made.append(compiled)
    return tuple(made)


def _compile(dispatcher: Any, kernel: CompiledKernel, lineinfo: bool, is_linked_as_ptx: bool) -> CompiledKernel:
    made = asdict(kernel) | {"place": kernel.place, "signature": kernel.signature}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Numba's performance warnings do not concern the user
            if is_linked_as_ptx and capability(kernel.target) == _current_capability():
                entry, ptx = _ptx_that_runs(dispatcher, kernel)
            else:
                entry, ptx = _ptx(dispatcher, kernel, lineinfo)
            resources = entry_resources(ptx, entry, kernel.target, _max_registers(dispatcher))
    except (ToolFailed, NoNumbaType) as error:
        return CompiledKernel(**(made | {"problem": str(error)}))
    except Exception as error:  # Numba, NVVM and nvJitLink raise many types; each is an error in the kernel
        why = explain(error)
        problem = f"{why.message}; {why.fix}" if why.fix else why.message
        return CompiledKernel(**(made | {"problem": problem, "place": why.place or kernel.place}))
    return CompiledKernel(**(made | {"entry": entry, "ptx": ptx, "resources": resources}))


def _ptx_that_runs(dispatcher: Any, kernel: CompiledKernel) -> tuple[str, str]:
    """(name of the entry, text) of the PTX that the device loads for a signature."""
    made = dispatcher.compile(tuple(numba_type(part) for part in kernel.signature))
    return made.entry_name, made.library.get_cubin().code.decode()


def _current_capability() -> tuple[int, int]:
    major, minor = import_module("numba.cuda").get_current_device().compute_capability
    return major, minor


def _ptx(dispatcher: Any, kernel: CompiledKernel, lineinfo: bool) -> tuple[str, str]:
    """(name of the entry, text) of the code that numba-cuda's ``_Kernel`` passes to the linker, linked to PTX."""
    compiler: Any = import_module("numba.cuda.compiler")
    nvvm: Any = import_module("numba.cuda.cudadrv.nvvm")
    options = dict(dispatcher.targetoptions)
    fastmath, debug = bool(options.get("fastmath")), bool(options.get("debug"))
    cc = capability(kernel.target)
    argument_types = tuple(numba_type(part) for part in kernel.signature)

    compiled = compiler.compile_cuda(
        dispatcher.py_func,
        compiler.types.void,
        argument_types,
        debug=debug,
        lineinfo=lineinfo,
        fastmath=fastmath,
        nvvm_options={"fastmath": fastmath, "opt": 3 if options.get("opt", True) else 0},
        cc=cc,
        max_registers=options.get("max_registers"),
        lto=True,
    )
    name = compiled.fndesc.llvm_func_name
    library = compiled.library
    function = library.get_function(name)
    library._entry_name = name
    compiler.kernel_fixup(function, debug)
    nvvm.set_launch_bounds(function, options.get("launch_bounds"))
    for path in options.get("link") or ():
        library.add_linking_file(path)
    return function.name, str(library.get_lto_ptx(cc=cc)).rstrip("\0")


def _max_registers(dispatcher: Any) -> int | None:
    return dispatcher.targetoptions.get("max_registers") or None


class NoNumbaType(Exception):
    """A dtype that numba-cuda does not have; the message names it."""


def numba_type(part: ArrayType | ScalarType) -> Any:
    """Numba's type of an argument, as ``typeof`` would give it for a device array or scalar.

    Raises:
        NoNumbaType: numba-cuda has no such type.
    """
    types: Any = import_module("numba.cuda.types")
    name = "boolean" if part.dtype == "bool" else part.dtype
    scalar = getattr(types, name, None)
    if scalar is None:
        raise NoNumbaType(f"numba-cuda has no type for {part.dtype}")
    if isinstance(part, ScalarType):
        return scalar
    return types.Array(scalar, part.ndim, part.layout, aligned=True)


@contextlib.contextmanager
def _no_device_needed(targets: Sequence[str], lineinfo: bool) -> Iterator[None]:
    """Compile the device functions that a kernel calls for the first target, with lines if the kernel has them.
    Numba asks the current device for its compute capability, and the function's own options for ``lineinfo``."""
    module: Any = import_module("numba.cuda.dispatcher")
    asked, plain = module.get_current_device, module.compile_cuda

    @functools.wraps(plain)
    def compile_cuda(*args: Any, debug: bool = False, **options: Any) -> Any:
        return plain(*args, debug=debug, **(options | {"lineinfo": lineinfo and not debug}))

    module.get_current_device = lambda: SimpleNamespace(compute_capability=capability(targets[0]))
    module.compile_cuda = compile_cuda
    try:
        yield
    finally:
        module.get_current_device, module.compile_cuda = asked, plain


@contextlib.contextmanager
def _not_compiled_on_import() -> Iterator[None]:
    """Do not compile and link a kernel that has a signature in ``@cuda.jit`` when its module is imported."""
    dispatchers = import_module("numba.cuda.dispatcher").CUDADispatcher
    compile_for, disable = dispatchers.compile, dispatchers.disable_compile
    dispatchers.compile = lambda dispatcher, signature: None
    dispatchers.disable_compile = lambda dispatcher, disabled=True: None  # needs a compiled kernel
    try:
        yield
    finally:
        dispatchers.compile, dispatchers.disable_compile = compile_for, disable


def _answer(
    request: dict[str, Any], load: Callable[..., Any] = load_function
) -> tuple[CompiledKernel, ...] | Fault:
    function: KernelRef = request["kernel"]
    try:
        with _no_device_needed(request["targets"], request["lineinfo"]), _not_compiled_on_import():
            dispatcher = load(request["root"], function)
    except KernelError as error:
        return error.fault
    if not hasattr(dispatcher, "py_func"):
        return _no_kernel(function).fault
    patch_variables(import_module("numba.cuda.debuginfo"))
    with _no_device_needed(request["targets"], request["lineinfo"]):
        return compile_kernel(
            dispatcher,
            request["signatures"],
            request["targets"],
            request["lineinfo"],
            sass=request["sass"],
            name=function.name,
        )


if __name__ == "__main__":
    # The user's module may print on import; that must not be part of the answer.
    with contextlib.redirect_stdout(sys.stderr):
        answer = pickle.dumps(_answer(pickle.load(sys.stdin.buffer)))
    sys.stdout.buffer.write(answer)
