"""Writes a failing case as one Python file that needs only numba-cuda and NumPy, for a bug report or a
debugger."""

from __future__ import annotations

import base64
import os
import shlex
import textwrap
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kcheck.alignment import ceil_div
from kcheck.device.call import keywords, load_launcher
from kcheck.device.plan import geometry, scalar_argument, scalars
from kcheck.errors import UserError
from kcheck.generator import CaseArrays
from kcheck.model import ArraySnapshot, NameArg, OpSpec, Verdict
from kcheck.model.indexing import index_at
from kcheck.model.layouts import DEVICE_MEMORY
from kcheck.oracle import Expected
from kcheck.oracle.reference import ReferenceFailed
from kcheck.runner.reproduce import Reproduced
from kcheck.specfile.discover import reach
from kcheck.specfile.kinds import KINDS
from kcheck.version import __version__

_FEW = 64  # up to this many elements are written as numbers
_SAMPLE = 64
"""How many elements of an output a script compares if no launch showed which are wrong."""
_MOST = 8 << 20  # bytes of compressed elements, so that an editor can open the file
_SEEN = ("memcheck", "racecheck", "initcheck", "synccheck", "overflow")  # the rules that `kcheck exec` can report

_TEMPLATE = '''\
"""{title}

Written by kcheck {version} from {spec}, seed {seed}.

{lines}

Exits with 1 as long as the bug exists.
"""

import base64
import importlib.util
import os
import sys
import tempfile
import warnings
import zlib

import numpy as np
{imports}from numba import cuda
from numba.cuda.cudadrv.devicearray import DeviceNDArray

# The code under test, a copy of the project's files.
FILES = {{
{files}
}}


def packed(dtype, shape, text):
    """The elements of an array that is too large to print."""
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype).reshape(shape)


# name: (dtype, shape, strides in bytes, offset and size in bytes, byte around the elements, elements)
ARRAYS = {{
{arrays}
}}
# name: (rows, bytes from row to row in ARRAYS and on the device, strides on the device): rows that lie far apart
FAR = {far}
OUTPUTS = {outputs}  # by output, the array that shares its memory; outputs are filled with 0xA5 before the launch
MUTABLE = {mutable}
MUST_WRITE = {must_write}
# (output, index, expected, allowed): the elements that are furthest off
EXPECTED = {expected}
FOUND = {found}


def load(folder, path, name):
    """A function of one of the files."""
    for part in (os.path.dirname(os.path.join(folder, path)), folder):
        sys.path.insert(0, part)
    spec = importlib.util.spec_from_file_location("under_test", os.path.join(folder, path))
    module = importlib.util.module_from_spec(spec)
    sys.modules["under_test"] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def view(name, buffer):
    """The elements of an array in its memory."""
    dtype, shape, strides, offset, _, _, _ = ARRAYS[name]
    return np.ndarray(shape, dtype, buffer, offset, strides)


def made(name):
    """The memory of an array: its elements, and other bytes before, after and between them."""
    dtype, shape, strides, offset, size, around, elements = ARRAYS[name]
    buffer = np.full(size, around, np.uint8)
    raw = np.ndarray((*shape, np.dtype(dtype).itemsize), np.uint8, buffer, offset, (*strides, 1))
    if elements is None:
        raw[...] = 0xA5
    else:
        elements = np.ascontiguousarray(np.broadcast_to(elements, shape), dtype)
        raw[...] = np.frombuffer(elements.tobytes(), np.uint8).reshape(raw.shape)
    return buffer


def placed(name, buffer):
    """The memory of an array on the device."""
    if name not in FAR:
        return cuda.to_device(buffer)
    rows, packed, apart, _ = FAR[name]
    memory = cuda.device_array((rows - 1) * apart + packed, np.uint8)
    for row in range(rows):
        memory[row * apart : row * apart + packed].copy_to_device(buffer[row * packed : (row + 1) * packed])
    return memory


def fetched(name, memory):
    """The bytes of an array after the launch."""
    if name not in FAR:
        return memory.copy_to_host()
    rows, packed, apart, _ = FAR[name]
    return np.concatenate([memory[row * apart : row * apart + packed].copy_to_host() for row in range(rows)])


def differs(actual, expected, allowed):
    """Whether an element is beyond what is allowed; NaN and infinities must match."""
    if expected != expected or abs(expected) == float("inf"):
        return not (actual == expected or (actual != actual and expected != expected))
    return not abs(actual - expected) <= allowed


def main():
    warnings.simplefilter("ignore")  # Numba advises against a grid as small as this one
    before = {{name: made(name) for name in ARRAYS}}
    memory = {{name: placed(name, buffer) for name, buffer in before.items()}}
    array = {{
        name: DeviceNDArray(
            shape,
            FAR[name][3] if name in FAR else strides,
            np.dtype(dtype),
            gpu_data=memory[name].gpu_data.view(offset),
        )
        for name, (dtype, shape, strides, offset, _, _, _) in ARRAYS.items()
    }}
    with tempfile.TemporaryDirectory() as folder:
        for path, text in FILES.items():
            os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write(text)
        function = load(folder, {path!r}, {function!r})
        {launch}
        cuda.synchronize()
    after = {{name: fetched(name, held) for name, held in memory.items()}}

    wrong = 0
    for output, index, expected, allowed in EXPECTED:
        actual = view(OUTPUTS[output], after[OUTPUTS[output]])[index].item()
        bad = differs(actual, expected, allowed)
        wrong += bad
        text = f"{{output}}{{list(index)}} = {{actual!r}}, expected {{expected!r}} within {{allowed:.3g}}"
        print(text, "<- wrong" if bad else "")
    for name in ARRAYS:
        mask = np.zeros(after[name].size, np.uint8)
        dtype, shape, strides, offset, _, _, elements = ARRAYS[name]
        np.ndarray((*shape, np.dtype(dtype).itemsize), np.uint8, mask, offset, (*strides, 1))[...] = 1
        outside = int(np.count_nonzero((before[name] != after[name]) & (mask == 0)))
        if outside:
            wrong += 1
            print(f"bytes around {{name}} that were written: {{outside}}")
        same = before[name][mask == 1] == after[name][mask == 1]
        if elements is not None and name not in MUTABLE and not same.all():
            wrong += 1
            print(f"{{name}} is an input and was written")
        if elements is None and MUST_WRITE:
            poison = np.frombuffer(b"\\xa5" * np.dtype(dtype).itemsize, np.uint8)
            held = np.ascontiguousarray(view(name, after[name])).view(np.uint8).reshape(-1, poison.size)
            left = int((held == poison).all(axis=1).sum())
            if left:
                wrong += 1
                print(f"elements of {{name}} that were not written: {{left}}")
    for line in FOUND:
        print("kcheck found", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
'''


def script(done: Reproduced, name: str) -> str:
    """The text of the file.

    Args:
        done: a case that was run, whether it failed or not.
        name: the name of the file that the text is written to.

    Raises:
        UserError: the case has no inputs, is not of a numba.cuda kernel, or its inputs are too large for a script.
        LaunchFault: the grid, block or arguments of the launch cannot be made.
    """
    executed, spec = done.executed, done.spec
    captured = done.captured
    if executed is None or executed.arrays is None or captured is None:
        raise UserError(f"--script: {done.case.id} has no inputs to write")
    if spec.function is not None:
        raise UserError(
            f"--script: {spec.function} is an array function, not a kernel; use --debug or kcheck export"
        )
    if spec.kernel is not None and spec.kernel.kind != "numba":
        title = KINDS[spec.kernel.kind].title
        raise UserError(
            f"--script: {spec.kernel} is {title}; a script can launch only numba.cuda kernels; use kcheck export"
        )
    function = spec.kernel or spec.launcher
    if spec.launch is None:
        function = spec.launcher
    assert function is not None
    arrays = list(captured.snapshot.arrays)
    seen = sorted({finding.rule for finding in executed.verdict.findings} & set(_SEEN))
    owners = {output: executed.arrays.aliases.get(output, output) for output in spec.outputs}
    body = _TEMPLATE.format(
        title=_title(executed.verdict),
        version=__version__,
        spec=spec.path,
        seed=done.case.seed,
        lines=_lines(name, [rule for rule in seen if rule not in ("memcheck", "synccheck")], arrays),
        imports="import ml_dtypes\n" if _extended(spec, executed.arrays) else "",
        files="\n".join(f"    {path!r}: {_literal(text)}," for path, text in _files(spec, function.path)),
        arrays="\n".join(_array_row(array) for array in arrays),
        far=_far_rows(arrays),
        outputs=repr(owners),
        mutable=repr(sorted({*spec.mutates, *executed.arrays.aliases.values()})),
        must_write=spec.sanitize["unwritten"] == "error",
        expected=_as_list(_expected(executed.verdict, spec, executed.arrays)),
        found=_as_list(repr(f"{finding.rule}: {finding.message}") for finding in executed.verdict.findings),
        path=function.path,
        function=function.name,
        launch=_launch(spec, executed.arrays),
    )
    if len(body) > 2 * _MOST:
        raise UserError("--script: its inputs are too large for a script; use kcheck export")
    return body


def without_gpu(arrays: Iterable[ArraySnapshot]) -> str:
    """What comes before ``kcheck exec`` in a line that runs the file without a GPU: the memory that it needs."""
    spans = sum(array.far.span for array in arrays if array.far is not None)
    return f"{DEVICE_MEMORY}={ceil_div(spans, 1 << 30) + 16} " if spans else ""


def _lines(name: str, switched_on: Sequence[str], arrays: Iterable[ArraySnapshot]) -> str:
    """The lines of the docstring that say how to run the file."""
    plain = f"python {shlex.quote(name)}"
    cpu = f"{without_gpu(arrays)}kcheck exec{''.join(f' --sanitize {rule}' for rule in switched_on)} -- {plain}"
    lines = f"  {plain:<{len(cpu)}}    with a CUDA GPU\n  {cpu}    without one"
    return lines.replace("\\", "/").replace('"""', "'")


def _title(verdict: Verdict) -> str:
    what = "fails" if verdict.rule else "passes"
    text = f"{verdict.case.id} {what}" + (f" by {verdict.rule}" if verdict.rule else "")
    return text.replace("\\", "/").replace('"""', "'")


def _files(spec: OpSpec, path: str) -> Iterator[tuple[str, str]]:
    """The file of the code under test, and those of the project that it imports."""
    root = os.path.realpath(spec.root)
    for file in sorted(reach(spec.root, os.path.realpath(Path(spec.root) / path))):
        yield os.path.relpath(file, root).replace(os.sep, "/"), Path(file).read_text("utf-8")


def _literal(text: str) -> str:
    """Python source as a readable string literal."""
    if "'''" not in text and "\\" not in text and "\r" not in text and not text.endswith("'"):
        return f"'''\\\n{text}'''"
    return "(\n" + "".join(f"        {line!r}\n" for line in text.splitlines(keepends=True)) + "    )"


def _array_row(array: ArraySnapshot) -> str:
    dtype = _dtype(array.dtype)
    head = f"{dtype}, {array.shape}, {array.strides}, {array.offset}, {array.size}, {array.guard}"
    return f"    {array.name!r}: (\n        {head},\n        {_elements(array, dtype)},\n    ),"


def _far_rows(arrays: Iterable[ArraySnapshot]) -> str:
    rows = [
        f"{array.name!r}: {(far.rows, far.packed, far.apart, far.strides(array.strides))}"
        for array in arrays
        if (far := array.far) is not None
    ]
    return f"{{{', '.join(rows)}}}"


def _elements(array: ArraySnapshot, dtype: str) -> str:
    if array.values is None:
        return "None"
    values: Any = array.values
    held = values[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]
    plain = held.dtype.kind in "biu" or (held.dtype.kind in "fc" and bool(np.isfinite(held).all()))
    if held.size <= _FEW and plain and held.size:
        return f"np.array({held.tolist()!r}, {dtype})"
    packed = zlib.compress(held.tobytes(), 9)
    if len(packed) > _MOST:
        raise UserError(f"--script: {array.name} is too large for a script; use kcheck export")
    lines = textwrap.wrap(base64.b85encode(packed).decode(), 100)
    text = "\n".join(f"            {line!r}" for line in lines) or "            ''"
    return f"packed(\n            {dtype},\n            {held.shape},\n{text},\n        )"


def _dtype(name: str) -> str:
    return f"ml_dtypes.{name}" if name.startswith(("bfloat", "float8")) else f"'{name}'"


def _extended(spec: OpSpec, arrays: CaseArrays) -> bool:
    names = [allocation.dtype.name for allocation in arrays.allocations.values()]
    names += [value.dtype.name for value in arrays.params.values()]
    return any(name.startswith(("bfloat", "float8")) for name in names)


def _expected(verdict: Verdict, spec: OpSpec, arrays: CaseArrays) -> Iterator[str]:
    """The worst elements; if the launch did not end, so that there are none, a sample of all elements."""
    for comparison in verdict.comparisons:
        for element in comparison.error_map.worst if comparison.error_map is not None else ():
            yield _row(comparison.output, element.index, element.expected, element.allowed)
    if verdict.comparisons or not spec.judged:
        return
    try:
        truth = Expected(spec, arrays).truth()
    except ReferenceFailed:
        return
    for name, array in truth.expected.items():
        flat = array.reshape(-1)
        allowed = truth.rule(name).allowance(name, flat, np.zeros(flat.shape)).allowed
        for number in np.unique(np.linspace(0, flat.size - 1, min(flat.size, _SAMPLE)).astype(np.int64)):
            yield _row(name, index_at(int(number), array.shape), flat[number].item(), float(allowed[number]))


def _row(output: str, index: tuple[int, ...], expected: Any, allowed: float) -> str:
    return f"({output!r}, {index}, {_number(expected)}, {_number(allowed)})"


def _as_list(items: Iterable[str]) -> str:
    """A list literal of items that are source text, one per line."""
    lines = [f"\n    {item}," for item in items]
    return f"[{''.join(lines)}\n]" if lines else "[]"


def _number(value: Any) -> str:
    """A Python number as source."""
    if isinstance(value, complex):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    text = repr(value)
    return f'float("{text}")' if text in ("nan", "inf", "-inf") else text


def _scalar(value: np.generic) -> str:
    name = value.dtype.name
    kind = (
        f"ml_dtypes.{name}"
        if name.startswith(("bfloat", "float8"))
        else f"np.{'bool_' if name == 'bool' else name}"
    )
    return f"{kind}({_number(value.item())})"


def _launch(spec: OpSpec, arrays: CaseArrays) -> str:
    """The statement that launches the kernel or calls the launcher."""
    owned = {name: f"array[{arrays.allocation(name).name!r}]" for name in (*spec.inputs, *spec.outputs)}
    if spec.launch is None:
        values: Mapping[str, str] = {
            **{name: str(size) for name, size in arrays.case.dims.items()},
            **{name: _scalar(value) for name, value in arrays.params.items()},
            **owned,
        }
        given = keywords(load_launcher(spec), values)
        return f"function({', '.join(f'{name}={text}' for name, text in given.items())})"
    shape = geometry(spec.launch, scalars(arrays.case, arrays.params))
    if shape.empty:
        return "pass  # a grid or block with a 0 in it is not launched"
    owners = {name: arrays.allocation(name) for name in owned}
    arguments = [
        owned[arg.name]
        if isinstance(arg, NameArg) and arg.name in owned
        else _scalar(scalar_argument(arrays.case, arrays.params, owners, arg))
        for arg in spec.launch.args
    ]
    return (
        f"function[{shape.grid}, {shape.block}, 0, {shape.shared}](\n            {', '.join(arguments)}\n        )"
    )
