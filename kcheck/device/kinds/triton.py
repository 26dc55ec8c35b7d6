"""Kernels of Triton: Triton compiles them for the arguments of each launch, and kcheck launches the PTX."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from kcheck.device.assembler import assembled
from kcheck.device.base import Backend
from kcheck.device.kinds.base import Called, WantedArtifact, Work
from kcheck.device.kinds.compiled import AsNeeded
from kcheck.device.kinds.triton_units import not_compiled, unit_for, unit_of
from kcheck.device.modules import Unit, UnitRun
from kcheck.device.places import function_place
from kcheck.device.plan import Geometry, LaunchFault, geometry, scalar_argument, scalars
from kcheck.device.specialize import signature_of_case
from kcheck.errors import KernelError
from kcheck.generator import CaseArrays
from kcheck.generator.expand import element_type
from kcheck.model import Case, NameArg, NumberArg, OpSpec, Scalar, TritonOptions
from kcheck.model.compiled import CompiledKernel, Signature
from kcheck.model.multiprocessor import WARP
from kcheck.specfile import load_function
from kcheck.triton.session import patch_triton_to_compile
from kcheck.triton.signature import is_pointer, laid_out, packed
from kcheck.triton.signature import scalars as flattened
from kcheck.triton.tensors import address_of
from kcheck.triton.versions import UnsupportedTriton, read_version

_WIDTHS = {"int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64"} | {
    f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)
}


class TritonDeviceKind:
    """A :class:`kcheck.device.kinds.base.DeviceKind`."""

    note = ""
    elsewhere = "run this spec with --device gpu"

    def prepare(self, spec: OpSpec, backend: Backend) -> None:
        """Import the kernel's file."""
        assert spec.kernel is not None
        if backend.modules is None:
            what = f"{spec.kernel} is Triton, which the {backend.name} cannot run"
            raise KernelError(spec.kernel.span, what, "use --device cpu or --device gpu")
        load(spec)

    def unsupported(self, dtype: str, backend: Backend) -> str:
        """The reason for complex numbers, which Triton does not have."""
        return f"Triton has no type for {dtype}" if dtype.startswith("complex") else ""

    def job(self, called: Called, backend: Backend) -> Callable[[], None]:
        """Compile the kernel for the arguments, and lay them out."""
        spec, modules = called.spec, backend.modules
        assert spec.kernel is not None
        assert spec.launch is not None
        assert modules is not None
        kernel, names = load(spec), scalars(called.case, called.params)
        given = _arguments(called)
        constants = constants_of(spec, names)
        signature = signature_of_case(spec, called.case)
        if _options(spec).config == "best":

            def tune() -> None:
                launch = spec.launch
                assert launch is not None
                grid = lambda chosen: geometry(launch, {**names, **_numbers(chosen)}).grid  # noqa: E731
                unit = unit_of(spec.kernel, kernel[grid](**given, **constants))
                modules.runs.append(UnitRun(unit, called.shape.block, called.shape.shared, signature))

            return tune
        compiled = _compiled(spec, kernel, given, constants)
        unit = unit_of(spec.kernel, compiled)
        content = _content(unit, compiled, given)
        metadata = compiled.metadata
        shape = Geometry(called.shape.grid, (WARP * metadata.num_warps, 1, 1), metadata.shared)
        run = UnitRun(unit, shape.block, shape.shared, signature)
        return lambda: modules.launch(run, shape, content, cooperative=metadata.launch_cooperative_grid)

    def launching(self, spec: OpSpec, case: Case, backend: Backend) -> AbstractContextManager[None]:
        """An empty context: a launcher launches Triton kernels as usual, with ``kernel[grid](...)``."""
        return nullcontext()

    def artifact(self, spec: OpSpec, cases: Sequence[Case], wanted: WantedArtifact) -> Work:
        """In this process, once the cases have run."""
        return AsNeeded(lambda: _all(spec, cases, wanted.targets, sass=wanted.sass))


def load(spec: OpSpec) -> Any:
    """The kernel: a ``JITFunction``, which may be wrapped in autotuning and heuristics.

    Raises:
        KernelError: Triton is not installed, or the file does not import.
    """
    assert spec.kernel is not None
    if importlib.util.find_spec("triton") is None:
        what = f"{spec.kernel} needs Triton, which is not installed"
        raise KernelError(spec.kernel.span, what, 'pip install "kcheck[cu13,triton]"')
    try:
        read_version(importlib.metadata.version("triton"))
    except UnsupportedTriton as fault:
        raise KernelError(spec.kernel.span, fault.what, fault.fix) from None
    if "tensorflow" in sys.modules and "triton" not in sys.modules:
        what = "TensorFlow is loaded in this process, and Triton crashes the process if it is loaded second"
        raise KernelError(spec.kernel.span, what, "run this spec by itself, or import triton before tensorflow")
    kernel: Any = load_function(spec.root, spec.kernel)
    if not type(kernel).__module__.startswith("triton."):
        place = function_place(kernel) or spec.kernel.span
        raise KernelError(place, f"{spec.kernel.name} is not a Triton kernel", "decorate it with @triton.jit")
    return kernel


def _options(spec: OpSpec) -> TritonOptions:
    return spec.compile if isinstance(spec.compile, TritonOptions) else TritonOptions()


def _arguments(called: Called) -> dict[str, Any]:
    """The arguments by the kernel's parameters: arrays, and Python numbers."""
    kernel = called.spec.kernel
    assert kernel is not None
    found: dict[str, Any] = {}
    for name, passed in zip(_parameters(load(called.spec)), called.arguments, strict=False):
        is_open = isinstance(passed.argument, NumberArg) and passed.argument.dtype is None
        value = passed.argument.value if isinstance(passed.argument, NumberArg) and is_open else passed.value
        found[name] = value.item() if isinstance(value, np.generic) else value
    return found


def _parameters(kernel: Any) -> list[str]:
    """The parameters except the constants, in order."""
    return [param.name for param in _jit(kernel).params if not param.is_constexpr]


def _jit(kernel: Any) -> Any:
    """The ``JITFunction`` inside autotuning and heuristics."""
    while hasattr(kernel, "fn") and not hasattr(kernel, "params"):
        kernel = kernel.fn
    return kernel


def constants_of(spec: OpSpec, names: Mapping[str, Scalar]) -> dict[str, Any]:
    """The constants and options of a case, by name."""
    options = _options(spec)
    wanted = [*options.constexprs, *options.options]
    if options.config != "best":
        wanted += options.config_keys
    elif "num_warps" in wanted:  # the configuration has them
        wanted = list(options.constexprs)
    return {name: names[name] for name in wanted} | options.words(names)


def _numbers(chosen: Mapping[str, Any]) -> dict[str, Scalar]:
    return {name: value for name, value in chosen.items() if isinstance(value, (bool, int, float))}


def _compiled(spec: OpSpec, kernel: Any, given: Mapping[str, Any], constants: Mapping[str, Any]) -> Any:
    """The ``CompiledKernel`` for arguments and constants.

    Raises:
        LaunchFault: it does not compile.
    """
    values = dict(constants)
    while kernel is not _jit(kernel):
        if hasattr(kernel, "configs"):
            values |= _configuration(kernel, {**given, **values})
        elif hasattr(kernel, "values"):
            for name, compute in kernel.values.items():
                values[name] = compute({**given, **values})
        kernel = kernel.fn
    jit = _with_widths(kernel, spec)
    assert spec.kernel is not None
    try:
        return jit.run(grid=None, warmup=True, **given, **values)
    except Exception as error:
        raise LaunchFault(not_compiled(error, jit, spec.kernel.name)) from None


def _configuration(tuner: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the chosen configuration sets; also runs its ``pre_hook``."""
    for config in tuner.configs:
        own = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
        if all(arguments.get(name) == value for name, value in own.items() if name in arguments):
            if config.pre_hook is not None:
                config.pre_hook({**arguments, **config.all_kwargs()})
            return {name: value for name, value in config.all_kwargs().items() if value is not None}
    return {}


def _with_widths(jit: Any, spec: OpSpec) -> Any:
    """The function, or a copy if the spec states widths of integers: Triton chooses a width by the value."""
    assert spec.launch is not None
    names = _parameters(jit)
    widths = {
        name: _WIDTHS[arg.dtype]
        for name, arg in zip(names, spec.launch.args, strict=False)
        if isinstance(arg, NameArg | NumberArg) and arg.dtype in _WIDTHS
    }
    if not widths:
        return jit
    copies = jit.__dict__.setdefault("_kcheck_copies", {})
    key = tuple(sorted(widths.items()))
    if key not in copies:
        copy = type(jit)(jit.fn, do_not_specialize=jit.do_not_specialize, debug=jit.debug, noinline=jit.noinline)
        for param in copy.params:
            if param.name in widths:
                param.__dict__["annotation_type"] = widths[param.name]
        copies[key] = copy
    return copies[key]


def _content(unit: Unit, compiled: Any, given: Mapping[str, Any]) -> bytes:
    """The bytes of the parameters.

    Raises:
        KernelError: the kernel needs scratch memory, which is not supported.
    """
    if getattr(compiled.metadata, "global_scratch_size", 0):
        raise KernelError(unit.place, f"{unit.kernel.name} needs global scratch memory, which is not supported")
    parts = []
    for name, kind in compiled.src.signature.items():
        for part, value, _ in flattened(kind, given.get(name), name):
            parts.append(address_of(value).to_bytes(8, "little") if is_pointer(part) else packed(part, value))
    slots = [(parameter.offset, parameter.size) for parameter in unit.parameters]
    return laid_out(parts, slots, max((offset + size for offset, size in slots), default=0))


def argument_classes(spec: OpSpec, arrays: CaseArrays) -> dict[int, str]:
    """By the number of an argument in ``args``, for integers, the class of values for which Triton compiles the
    code: ``1``, ``16`` for multiples of it, or empty for all others."""
    kernel = load(spec)
    numbers = {name: n for n, name in enumerate(_parameters(kernel))}
    return {
        numbers[name]: "1" if value == 1 else "16" if value % 16 == 0 else ""
        for name, value in _numbers_given(spec, kernel, arrays).items()
        if isinstance(value, int) and not isinstance(value, bool)
    }


def parameter_sources(spec: OpSpec, arrays: CaseArrays) -> tuple[tuple[str, int], ...]:
    """For each parameter of the kernel as Triton compiles it for a case, its type and the number of the argument
    in ``args``."""
    kernel = load(spec)
    numbers = {name: n for n, name in enumerate(_parameters(kernel))}
    given = {**_stand_ins(spec, kernel, arrays.case), **_numbers_given(spec, kernel, arrays)}
    source = _compiled(spec, kernel, given, constants_of(spec, scalars(arrays.case, arrays.params))).src
    return tuple((str(kind), numbers[name]) for name, kind in source.signature.items() if kind != "constexpr")


def _numbers_given(spec: OpSpec, kernel: Any, arrays: CaseArrays) -> dict[str, Any]:
    """The arguments of a case that are not arrays, by the kernel's parameters."""
    assert spec.launch is not None
    owners = {name: arrays.allocation(name) for name in (*spec.inputs, *spec.outputs)}
    found: dict[str, Any] = {}
    for name, arg in zip(_parameters(kernel), spec.launch.args, strict=False):
        if isinstance(arg, NumberArg) and arg.dtype is None:
            found[name] = arg.value
        elif not isinstance(arg, NameArg) or arg.name not in owners:
            found[name] = scalar_argument(arrays.case, arrays.params, owners, arg).item()
    return found


class _Stand:
    """A stand-in for an array in a compilation, with its dtype and the alignment of an allocation."""

    def __init__(self, dtype: str, ndim: int) -> None:
        self.dtype = dtype
        self.shape = (16,) * ndim

    def data_ptr(self) -> int:
        """An address that is divisible by 16."""
        return 256


def _all(spec: OpSpec, cases: Sequence[Case], targets: Sequence[str], *, sass: bool) -> tuple[CompiledKernel, ...]:
    """The kernel for each target, and each set of types and constants among the cases."""
    assert spec.launch is not None
    assert spec.kernel is not None
    patch_triton_to_compile()
    kernel = load(spec)
    made: dict[tuple[str, str, Signature], CompiledKernel] = {}
    for case in cases:
        signature = signature_of_case(spec, case)
        given = _stand_ins(spec, kernel, case)
        try:
            first = _compiled(spec, kernel, given, constants_of(spec, {**case.dims, **case.params}))
        except LaunchFault as fault:
            why = fault.findings[0]
            for target in targets:
                failed = CompiledKernel(
                    spec.kernel.name, why.place or spec.kernel.span, signature, target, problem=why.message
                )
                made.setdefault(("", target, signature), failed)
            continue
        for target in targets:
            unit = unit_for(spec.kernel, first, target)
            made.setdefault((unit.instance, target, signature), assembled(unit.code(signature), target, sass=sass))
    return tuple(made.values())


def _stand_ins(spec: OpSpec, kernel: Any, case: Case) -> dict[str, Any]:
    """Stand-ins for the arguments of a case, with the same types."""
    assert spec.launch is not None
    found: dict[str, Any] = {}
    for name, arg in zip(_parameters(kernel), spec.launch.args, strict=False):
        array = None
        if isinstance(arg, NameArg):
            array = spec.inputs.get(arg.name) or spec.outputs.get(arg.name)
        if array is not None:
            found[name] = _Stand(element_type(array, case.dtypes).name, len(array.shape))
        elif isinstance(arg, NameArg):
            found[name] = {**case.dims, **case.params}[arg.name]
        elif isinstance(arg, NumberArg):
            found[name] = arg.value
        else:
            found[name] = 16
    return found


TRITON = TritonDeviceKind()
