"""Kernels in CUDA C++ and HIP. NVRTC compiles them for each case that needs different code."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path

from kcheck.device.artifact import no_compiler
from kcheck.device.kinds.base import NotCompiled
from kcheck.device.kinds.compiled import CompiledKind
from kcheck.device.kinds.cpp import defines, instance, varying
from kcheck.device.kinds.entry import find_entry, ptx_parameters
from kcheck.device.kinds.host_code import is_foreign_header, is_host_header, whole
from kcheck.device.kinds.nvrtc import (
    INCLUDE,
    CompileFailed,
    Message,
    Source,
    compile_source,
    toolkit_folders,
)
from kcheck.device.kinds.signature import CppMember, CppParameter
from kcheck.device.kinds.structs import wanted_members
from kcheck.device.modules import Form, Parameter, Unit
from kcheck.errors import KernelError, SpecError
from kcheck.model import Case, CudaOptions, Fault, Finding, KernelRef, OpSpec
from kcheck.ptx.syntax.symbols import kernel_name
from kcheck.span import Span, as_typed
from kcheck.specfile.kinds.cudafile import headers, read_cuda
from kcheck.specfile.kinds.text import decoded
from kcheck.specfile.paths import shown

_MOST_ERRORS = 5  # the most errors of one compilation that are reported
_NO_OPTION = re.compile(r"unrecognized option (\S+)")
_NO_FILE = re.compile(r'cannot open source file "([^"]+)"')
_OF_TOOLKIT = re.compile(
    r"^(?:crt|cub|cuda|thrust|cooperative_groups|nv)/|^(?:cuda|mma|curand|cooperative_groups)\w*\.h"
)
_OF_ROCM = re.compile(r"^(?:roc|hipcub|hiprand|hipblas|ck/|amd_)")
_HOST_CALL = re.compile(r'identifier "(?:cuda|hip)(?:Malloc|Memcpy|Memset|Free|Launch|Get|Device|Stream|Event)')
_HOST_CLASS = re.compile(
    r'"std" has no member "(?:vector|string|map|set|unordered_\w+|list|deque|cout|cerr|endl|thread|mutex)"'
    r'|"std::(?:vector|string|map|set|unordered_\w+|list|deque|queue|stack|thread|mutex|function)\b'
)
_MARK = b"\xef\xbb\xbf"  # the byte-order mark of UTF-8
_OF_PYTORCH = re.compile(r"\b(?:torch|at|c10)::|\b(?:TORCH|AT|C10)_[A-Z]")
_AMDS = re.compile(r"(?:__builtin_amdgcn|__ockl|__ocml|__llvm_amdgcn|__amdgcn|amd_)\w*")


class _Compiler:
    """A :class:`kcheck.device.kinds.compiled.Compiler`."""

    folders: tuple[str, ...] = ()
    """Folders with headers that are searched before all others."""

    def load(self, spec: OpSpec, target: str = "") -> None:
        """Check that there is a compiler."""
        assert spec.kernel is not None
        if why := no_compiler():
            raise KernelError(spec.kernel.span, f"{spec.kernel} cannot be compiled: {why}")

    def known(self, spec: OpSpec) -> tuple[Collection[str], Collection[str]]:
        """The ``__global__`` functions, and all words: macros and headers can define kernels with other names."""
        assert spec.kernel is not None
        file = Path(spec.root) / spec.kernel.path
        include = spec.compile.include if isinstance(spec.compile, CudaOptions) else ()
        found, _ = headers(file, [file.parent, *(Path(spec.root) / folder for folder in include)])
        read = read_cuda(file)
        words = [read_cuda(Path(path)).words for path in found.values() if path is not None]
        return tuple(read.kernels), read.words.union(*words)

    def unit(self, spec: OpSpec, case: Case, target: str, name: str = "") -> Unit:
        """Compile the kernel with the types, dims and params of the case.

        Raises:
            NotCompiled: NVRTC rejects it.
            SpecError: an included file is missing.
        """
        kernel, options = spec.kernel, spec.compile or CudaOptions()
        assert kernel is not None
        assert isinstance(options, CudaOptions)
        macros = defines(spec, options, case)
        given = (f"--std={options.std}", *(f"--define-macro={n}={v}" for n, v in macros.items()), *options.options)
        if spec.debug_code:
            given += ("--device-debug",)
        told = expression = name or instance(spec, case)
        kernel = replace(kernel, name=name.partition("<")[0].strip()) if name else kernel
        if differing := varying(spec, options):
            told += f" ({', '.join(f'{name}={macros[name]}' for name in differing)})"
        members = wanted_members(spec.launch.args) if spec.launch is not None and not name else ()
        file = Path(spec.root) / kernel.path
        include = (os.path.join(spec.root, folder) for folder in options.include)
        try:
            source = _source(file, expression, (*self.folders, str(file.parent), *include), given)
            return _compiled(kernel, told, replace(source, members=members), target)
        except (OSError, UnicodeDecodeError) as error:
            raise KernelError(Span(shown(file)), f"this file cannot be read: {error}") from error


def _source(file: Path, expression: str, folders: tuple[str, ...], options: tuple[str, ...]) -> Source:
    """The source to compile, with all files of the project that it includes."""
    found, computed = headers(file, [Path(folder) for folder in folders])
    contents = None
    if not computed:
        contents = tuple(
            (place, "" if real is None else Path(real).read_bytes().decode("latin-1"))
            for place, real in sorted(found.items())
        )
    text = decoded(file.read_bytes())
    if any(Path(real).read_bytes().startswith(_MARK) for real in found.values() if real is not None):
        text = whole(
            os.path.realpath(file), text, folders
        ).text  # NVRTC reads headers itself, and rejects the mark
    on_host = tuple(sorted(_host_headers(file, found)))
    return Source(os.path.realpath(file), text, expression, folders, options, contents, on_host)


def _host_headers(file: Path, found: Mapping[str, str | None]) -> set[str]:
    """The names of headers of host code that a file or its headers include, but that are not in the project."""
    there = {place for place, real in found.items() if real is not None}
    files = {os.path.realpath(file), *(real for real in found.values() if real is not None)}
    names = {name for path in files for name, _ in read_cuda(Path(path)).includes if is_host_header(name)}
    return {name for name in names if not any(place.endswith("/" + name) for place in there)}


def _compiled(kernel: KernelRef, told: str, source: Source, target: str) -> Unit:
    made = _unit(kernel, told, target, source)
    if isinstance(made, CompileFailed):
        raise _explained(made, kernel, source)
    return made


@lru_cache(maxsize=256)
def _unit(kernel: KernelRef, told: str, target: str, source: Source) -> Unit | CompileFailed:
    """The compiled kernel, or why it does not compile: other cases with the same source do not try again."""
    from kcheck.ptx.syntax.heads import parse_heads  # lazy: only a run with C++ needs it

    try:
        made = compile_source(source, target)
    except CompileFailed as failed:
        return failed.with_traceback(None)
    name = kernel.name.rpartition("::")[2]
    kernels, other = read_cuda(Path(source.file)).kernels, kernel_name(made.entry)
    seen = kernels.get(name)
    if seen is not None and other != name and other in kernels:
        what = f"a macro replaces {name!r} with {other!r}, so kcheck would check another kernel of {kernel.path}"
        raise KernelError(kernel.span, what, f"name {other} in the spec, or remove the macro")
    entry = find_entry(parse_heads(made.ptx, as_typed(source.file)), made.entry, kernel.span)
    texts = seen.parameters if seen is not None else ()
    declared = ptx_parameters(entry)
    parameters = tuple(
        _parameter(slot, typed, texts[n] if len(texts) == len(declared) else "")
        for n, (slot, typed) in enumerate(zip(declared, made.parameters, strict=True))
    )
    place = Span(as_typed(source.file), seen.line if seen is not None else 1, 1)
    again = partial(_compiled, kernel, told, source)
    return Unit(kernel, place, told, target, made.ptx, made.entry, parameters, again)


def _parameter(slot: Parameter, typed: CppParameter, text: str) -> Parameter:
    """A parameter of the PTX, with what the C++ compiler knows about it."""
    told = f"`{text}`" if text else f"a {typed.element or 'class'}{'*' * typed.is_pointer}"
    members = None
    if typed.is_class:
        members = {
            name: Parameter(m.offset, m.size, _form(m) or "bytes", m.element, name) if m.exists else None
            for name, m in typed.members
        }
    form = _form(typed) or slot.form
    return Parameter(slot.offset, slot.size, form, typed.element, told, "", typed.alignment, members)


def _form(typed: CppParameter | CppMember) -> Form | None:
    """The form of a parameter or member; None if its type does not say."""
    if typed.is_pointer:
        return "pointer"
    if typed.is_class:
        return "class"
    if typed.element in ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"):
        return "float"
    return "integer" if typed.element else None


def _explained(failed: CompileFailed, kernel: KernelRef, source: Source) -> Exception:
    """The exception for errors of the compiler: an error in the spec if a file is missing, or if it does not name
    an instance of the template; otherwise findings."""
    findings = []
    file = Path(source.file)
    if failed.messages and all(_is_of_name(message) for message in failed.messages):
        told = f"{kernel.name} is not an instance of a kernel in {kernel.path}: {failed.messages[0].text}"
        return SpecError([Fault(kernel.span, told, _declared(kernel, file))])
    option = _NO_OPTION.search(failed.log)
    if option is not None:
        told = f"NVRTC has no option {option[1]!r}, which compile: {{options: ...}} passes to it"
        return SpecError(
            [Fault(kernel.span, told, "use an option of NVRTC; it does not have all options of nvcc")]
        )
    for message in failed.messages[:_MOST_ERRORS]:
        missing = _NO_FILE.search(message.text)
        if missing is not None:
            place = _place(message, kernel, file)
            return SpecError([Fault(place, f'there is no file "{missing[1]}" to include', _where(missing[1]))])
        told = f"does not compile: {message.text}"
        fix = _fix(message) or _empty(message, source)
        findings.append(Finding("compile", told, fix=fix, kernel=kernel.name, place=_place(message, kernel, file)))
    more = len(failed.messages) - len(findings)
    if more > 0:
        last = findings[-1]
        told = f"{last.message} (and {more} more error{'s' * (more > 1)})"
        findings[-1] = Finding("compile", told, fix=last.fix, kernel=kernel.name, place=last.place)
    if not findings:
        told = f"does not compile: {' '.join(failed.log.split())[:400]}"
        findings.append(Finding("compile", told, kernel=kernel.name, place=kernel.span))
    return NotCompiled(*findings)


def _place(message: Message, kernel: KernelRef, file: Path) -> Span:
    """The innermost place of an error that is in a file of the project; otherwise the kernel in the spec."""
    libraries = tuple(folder + os.sep for folder in (str(INCLUDE), *toolkit_folders()))
    for name, line, column in ((message.file, message.line, message.column), *((*t, 0) for t in message.through)):
        if os.path.isfile(name) and not os.path.realpath(name).startswith(libraries):
            return Span(as_typed(os.path.realpath(name)), line, max(column, 1))
    return kernel.span


def _is_of_name(message: Message) -> bool:
    """Whether the error is in how the spec names the kernel: then it is in code that kcheck or NVRTC has added."""
    return message.file in _ASKING_FILES and not message.through


_ASKING_FILES = ("kcheck_signature.h", "__nv_name_map")


def _declared(kernel: KernelRef, file: Path) -> str:
    """How to name an instance: with the template parameters that the file declares."""
    name = kernel.name.partition("<")[0].rpartition("::")[2].strip()
    text = decoded(file.read_bytes())
    for found in re.finditer(r"template\s*<([^<>{};]*)>\s*__global__[^;{}]*?\b(\w+)\s*\(", text):
        if found[2] == name:
            parameters = " ".join(found[1].split())
            return f"give a value for each template parameter: {name}<{parameters}>"
    return f"write {name} without template arguments, or declare it as a template"


def _fix(message: Message) -> str:
    """The fix for an error; empty if it is unknown."""
    if "<<<" in message.text:
        return "launches from kernels are not supported: launch from a launcher"
    if _HOST_CALL.search(message.text) or _HOST_CLASS.search(message.text):
        return "this is code of the host; device code cannot use it"
    if _OF_PYTORCH.search(_line(message)):
        return "kernels are compiled without the headers of PyTorch: pass pointers and sizes"
    if found := _AMDS.search(message.text):
        return f"{found[0]} is available only on AMD GPUs: kcheck runs HIP as on an NVIDIA GPU"
    return ""


def _line(message: Message) -> str:
    """The source line of an error; empty if it is not in a file."""
    try:
        lines = decoded(Path(message.file).read_bytes()).splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    return lines[message.line - 1] if 0 < message.line <= len(lines) else ""


def _empty(message: Message, source: Source) -> str:
    """The headers that were not found and count as empty, if one of them may declare what is missing."""
    names = [name for name in source.host_headers if is_foreign_header(name)]
    if not names or not _MISSING.search(message.text):
        return ""
    those = f"{names[0]} was" if len(names) == 1 else f"{', '.join(names)} were"
    count = "counts" if len(names) == 1 else "count"
    return f"{those} not found and {count} as empty: add its folder, as in `compile: {{include: [include]}}`"


_MISSING = re.compile(r"is undefined|has no member|is not a template|name followed by")


def _where(name: str) -> str:
    """How to make an included file available."""
    if name.startswith("curand"):
        major = import_module("cuda.bindings.nvrtc").nvrtcVersion()[1]
        return f"pip install nvidia-curand{'' if major >= 13 else f'-cu{major}'}, which has the headers of cuRAND"
    if _OF_TOOLKIT.match(name):
        return "pip install 'kcheck[cu13]', which includes the CUDA headers"
    if _OF_ROCM.match(name):
        return f"{name} is available only on AMD GPUs: kcheck runs HIP as on an NVIDIA GPU"
    return "add its folder to compile, as in `compile: {include: [include]}`, or fix the name"


class _HipCompiler(_Compiler):
    """HIP, with headers that define it in CUDA C++."""

    folders = (str(INCLUDE.parent / "include_hip"),)


CUDA = CompiledKind("cuda", _Compiler())
HIP = CompiledKind(
    "hip",
    _HipCompiler(),
    "HIP runs as on an NVIDIA GPU: wavefronts have 32 lanes, and AMD's CDNA GPUs have 64",
)
