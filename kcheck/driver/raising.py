"""Code that reports ``raise`` and ``assert``: without ``debug=True``, numba-cuda compiles both to a silent return.

A kernel that can raise is lowered once, with a call that marks each ``raise``, and compiled twice. Without the
marks the LLVM IR is the same as for a GPU: this PTX runs, and ``kcheck lint`` measures it. The marked PTX only
reports which threads raise what.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Any

from kcheck.ptx.syntax.raise_markers import is_marker, marker

_loading: ContextVar[tuple[bytes, str]] = ContextVar("kcheck_loading", default=(b"", ""))
"""The image that numba-cuda is loading, and its reporting PTX."""
_MARKED = re.compile(r'^(declare .*@"?kcheck_raise_.*\n\n?|.*@"?kcheck_raise_.*\n)', re.MULTILINE)


def patch_raises(lowering: Any) -> None:
    """Change ``numba.cuda.lowering``: mark each ``raise`` and ``assert`` in code without ``debug=True``."""
    plain = lowering.Lower.lower_static_raise
    llvm, cgutils = lowering.llvm_ir, lowering.cgutils

    def lower_static_raise(self: Any, statement: Any) -> None:
        if self.flags.error_model != "python":  # with debug=True numba-cuda reports exceptions itself
            name = marker(exception_text(statement.exc_class, statement.exc_args))
            kind = llvm.FunctionType(llvm.VoidType(), ())
            mark = cgutils.get_or_insert_function(self.module, kind, name)
            # An unnamed call would change the numbers of the unnamed values after it.
            self.builder.call(mark, (), name="kcheck_raise_call")
        plain(self, statement)

    lowering.Lower.lower_static_raise = lower_static_raise


def patch_callconv(callconv: Any) -> None:
    """Change ``numba.cuda.core.callconv``: report why an exception with computed arguments does not compile,
    instead of failing with an AttributeError."""
    from numba.cuda.core.errors import UnsupportedError

    def return_dynamic_user_exc(self: Any, builder: Any, *arguments: Any, loc: Any = None, **options: Any) -> None:
        raise UnsupportedError("the arguments of an exception must be constants in a CUDA kernel", loc)

    callconv.CUDACallConv.return_dynamic_user_exc = return_dynamic_user_exc


def exception_text(kind: type[BaseException] | None, arguments: tuple[Any, ...] | None) -> str:
    """``ValueError: negative``, like the last line of a traceback."""
    if kind is None:
        return "the exception again"
    given = arguments or ()
    said = str(given[0]) if len(given) == 1 else str(given) if given else ""
    return f"{kind.__name__}: {said}" if said else kind.__name__


def patch_libraries(codegen: Any) -> None:
    """Change ``numba.cuda.codegen.CUDACodeLibrary``: keep the marked IR, and load its PTX as well."""
    library = codegen.CUDACodeLibrary
    cufunc, reduce_states, rebuild = library.get_cufunc, library._reduce_states, library._rebuild.__func__

    def llvm_strs(self: Any) -> list[str]:
        if self._llvm_strs is None:
            marked = [str(module) for module in self.modules]
            self._llvm_strs = [_MARKED.sub("", text) for text in marked]
            if self._llvm_strs != marked and "g" not in self._nvvm_options:
                self._kcheck_marked = marked
        made: list[str] = self._llvm_strs
        return made

    def get_cufunc(self: Any) -> Any:
        """The loaded kernel; the driver gets its reporting PTX as well."""
        text = reporting(self)
        if not text or self._cufunc_cache:
            return cufunc(self)
        code = self.get_cubin().code
        token = _loading.set(((code.encode() if isinstance(code, str) else code).rstrip(b"\0"), text))
        try:
            return cufunc(self)
        finally:
            _loading.reset(token)

    def states(self: Any) -> dict[str, Any]:
        return {**reduce_states(self), "kcheck_reporting": reporting(self)}

    def rebuilt(kind: Any, /, kcheck_reporting: str | None = None, **fields: Any) -> Any:
        made = rebuild(kind, **fields)
        made._kcheck_reporting = kcheck_reporting
        return made

    library.llvm_strs = property(llvm_strs)
    library.get_cufunc = get_cufunc
    library._reduce_states = states
    library._rebuild = classmethod(rebuilt)


def reporting(library: Any) -> str:
    """The PTX of a numba-cuda code library that reports which threads raise; empty if none can."""
    made: str | None = getattr(library, "_kcheck_reporting", None)
    if made is None:
        made = ""
        library.llvm_strs  # noqa: B018  # reading it stores the marked IR
        marked = getattr(library, "_kcheck_marked", None)
        if marked is not None and library._entry_name is not None:  # a kernel, not a device function
            aside = object.__new__(type(library))  # copy.copy would serialize it
            aside.__dict__.update(library.__dict__)
            aside._llvm_strs = marked
            aside._ptx_cache, aside._ltoir_cache = {}, {}
            aside._cubin_cache, aside._linkerinfo_cache = {}, {}
            text = aside.get_cubin().code
            text = (text if isinstance(text, str) else text.decode()).rstrip("\0")
            made = text if is_marked(text) else ""
        library._kcheck_reporting = made
    return made


def is_marked(text: str) -> bool:
    """Whether PTX has a call that marks a ``raise``: the compiler removes calls that it can prove unreachable."""
    return any(is_marker(word) for word in re.findall(r"\w+", text))


def reporting_of(image: bytes) -> str:
    """The reporting PTX of an image that the driver loads; empty if there is none."""
    code, text = _loading.get()
    return text if code == image else ""
