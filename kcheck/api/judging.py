"""Judge one call: compare an output that the caller computed with the reference on the same inputs."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kcheck import model
from kcheck.api.drawing import Case
from kcheck.api.spec import caller, caller_runs
from kcheck.api.verdict import Array, Verdict, comparison_text
from kcheck.errors import UserError
from kcheck.frameworks import as_numpy, may_flush
from kcheck.generator import MEMORY_LIMIT, CaseArrays, expand, materialize
from kcheck.model import DTYPES, Compare, Finding, OpSpec
from kcheck.oracle.compare import compare
from kcheck.oracle.tolerance import FIXED_DEFAULTS, ExactTolerance, Fixed
from kcheck.specfile.build import given_spec
from kcheck.specfile.paths import nearest_root

_ACTUAL = "actual"


def validate(
    op: str,
    inputs: Mapping[str, object],
    output: object,
    reference: Callable[..., object],
    *,
    compute: str | None = None,
    flushes_subnormals: bool | None = None,
    **keys: Any,
) -> Verdict:
    """Check an output that the caller computed.

    The reference gets float64 copies of the inputs by keyword, and the output is compared with its result within
    the rounding error that is possible for these inputs (docs/oracle.md).

    >>> import kcheck
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 5, dtype=np.float32)
    >>> kcheck.validate("relu", {"x": x}, np.abs(x), lambda x: np.maximum(x, 0)).passed
    False

    Args:
        op: a name, for messages.
        inputs: the arrays of the call by name, of any framework; numbers are params.
        output: an array, a dict of arrays by name, or a tuple of arrays in the order of the reference's results.
        reference: a NumPy function with parameters of these names.
        compute: the precision in which a correct op may accumulate; default: float32, and float64 for float64.
        flushes_subnormals: whether subnormal numbers may become 0, as in :meth:`Case.judge`. None: only if the
            output or an input is an array of JAX or TensorFlow.
        keys: other keys of a spec, such as ``tolerance``, ``compare`` and ``invariants``.

    Raises:
        SpecError: a name is not an identifier, an array has a dtype that specs do not have, the reference has a
            parameter that is not an input, or a key is wrong.
        NotAnArray: an input or output is not an array.
    """
    case, made = case_of_output(op, inputs, output, reference, compute=compute, **keys)
    flushes = may_flush([output, inputs]) if flushes_subnormals is None else flushes_subnormals
    return case.judge(made, flushes_subnormals=flushes)


def case_of_output(
    op: str,
    inputs: Mapping[str, object],
    output: object,
    reference: Callable[..., object],
    *,
    compute: str | None = None,
    **keys: Any,
) -> tuple[Case, dict[str, Array]]:
    """The case of a call, and the output that the caller computed, by name. Arguments: as :func:`validate`."""
    arrays = {name: as_numpy(value, f"the input {name}") for name, value in inputs.items()}
    numbers = {name: value for name, value in inputs.items() if isinstance(value, bool | int | float)}
    arrays = {name: array for name, array in arrays.items() if name not in numbers}
    outputs = _outputs_by_name(inputs, output)
    made = {name: as_numpy(value, f"the output {name}") for name, value in outputs.items()}
    shapes: dict[str, tuple[int, ...]] = {}
    noted = _noting_shapes(reference, tuple(made), shapes)
    spec = _spec_of(op, arrays, numbers, made, noted, {**keys, **({"compute": compute} if compute else {})})
    held = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    case = replace(expand(spec, 0), label="call")
    told = replace(case, dtypes={}, layouts={}, values={})  # what was drawn is not what the caller passed
    return _CallerCase(spec, told, materialize(spec, case, held), shapes), made


class _CallerCase(Case):
    """The case of an output that the caller computed. Its spec has the shape of that output, which may be wrong.

    Args:
        expected: the shapes that the reference returned, by output.
    """

    def __init__(
        self, spec: OpSpec, case: model.Case, arrays: CaseArrays, expected: Mapping[str, tuple[int, ...]]
    ) -> None:
        super().__init__(spec, case, arrays)
        self._expected = expected

    def judge(
        self,
        output: object = None,
        gradients: Mapping[str, object] | None = None,
        *,
        flushes_subnormals: bool | None = None,
    ) -> Verdict:
        found = super().judge(output, gradients, flushes_subnormals=flushes_subnormals)
        shapes = {name: tuple(self._arrays.allocation(name).shape) for name in self._spec.outputs}
        wrong = [name for name, shape in shapes.items() if self._expected.get(name, shape) != shape]
        if found.status != model.Status.ERROR.value or not wrong:
            return found
        findings = tuple(
            Finding(
                "output",
                f"the output {name} has shape {list(shapes[name])}, but the reference returned "
                f"{list(self._expected[name])}",
                array=name,
            )
            for name in wrong
        )
        return Verdict.of(replace(found._model, status=model.Status.FAILED, findings=findings), found._inputs)


def _noting_shapes(
    reference: Callable[..., object], outputs: Sequence[str], shapes: dict[str, tuple[int, ...]]
) -> Callable[..., object]:
    """Wrap the reference to record the shapes of its results in ``shapes``, by output."""

    @functools.wraps(reference)
    def noted(*args: Any, **kwargs: Any) -> object:
        result = reference(*args, **kwargs)
        named: Mapping[str, Any] = {}
        if isinstance(result, Mapping):
            named = result
        elif len(outputs) == 1:
            named = {outputs[0]: result}
        elif isinstance(result, tuple | list):
            named = dict(zip(outputs, result, strict=False))
        shapes.update({name: np.shape(named[name]) for name in outputs if hasattr(named.get(name), "shape")})
        return result

    return noted


def _outputs_by_name(inputs: Mapping[str, object], output: object) -> dict[str, object]:
    """The outputs of a call by name; without a dict, names are generated. A tuple of numbers is one array."""
    if isinstance(output, Mapping):
        return dict(output)
    stem = next(name for name in ("output", "result", "output_") if name not in inputs)
    if isinstance(output, tuple) and len(output) > 1 and all(hasattr(each, "shape") for each in output):
        return {f"{stem}_{number}": each for number, each in enumerate(output)}
    return {stem: output}


def _spec_of(
    op: str,
    arrays: Mapping[str, Array],
    numbers: Mapping[str, bool | int | float],
    outputs: Mapping[str, Array],
    reference: Callable[..., object],
    keys: Mapping[str, Any],
) -> OpSpec:
    """The spec whose only case is this call."""
    size = sum(array.nbytes for array in (*arrays.values(), *outputs.values()))
    if size > MEMORY_LIMIT // 4:
        raise UserError(f"{op}: the arrays of this call have {size / 2**30:.1f} GiB; validate a part of them")
    path, line = caller()
    root = nearest_root(path) or nearest_root(Path()) or path.parent
    kinds = {bool: "bool", int: "int64", float: "float64"}
    return given_spec(
        path,
        Path(root).absolute(),
        {
            "op": re.sub(r"[^a-z0-9_]+", "_", op.lower()).strip("_") or "op",
            "inputs": {name: _declared(array) for name, array in arrays.items()},
            "params": {name: {"dtype": kinds[type(n)], "values": [n]} for name, n in numbers.items()},
            "outputs": {name: _declared(array) for name, array in outputs.items()},
            "launcher": caller_runs,
            "reference": reference,
            **keys,
        },
        line,
    )


def _declared(array: Array) -> dict[str, Any]:
    return {"shape": list(array.shape), "dtype": array.dtype.name}


def assert_close(
    actual: object,
    expected: object = None,
    *,
    reference: Callable[..., object] | None = None,
    inputs: Mapping[str, object] | None = None,
    compute: str | None = "float32",
    flushes_subnormals: bool | None = None,
) -> None:
    """Fail unless an array is close enough to its expected values.

    With a reference and its inputs, close enough means within the rounding error that these inputs allow.
    With an expected array alone, it means ``abs(actual - expected) <= atol + rtol * abs(expected)``, with the
    tolerances of the dtype of ``actual`` (float32: 1e-5; float16 and bfloat16: 1e-2; float64: 1e-10; integers:
    equal).

    >>> import kcheck
    >>> import numpy as np
    >>> x = np.float32([0.1, 0.2, 0.3])
    >>> kcheck.assert_close(x.sum(), reference=lambda x: x.sum(), inputs={"x": x})
    >>> kcheck.assert_close(x, x * 2)
    Traceback (most recent call last):
    ...
    AssertionError: not close: 3 of 3 elements (100%)
      mismatch   actual[2]: 3 of 3 elements (100%) beyond tolerance
      actual     0.300000012
      expected   0.600000024
      error      0.3  allowed 1.6e-05  max ulp 8,388,608
      worst                 actual       expected     error  allowed
                 actual[2]  0.300000012  0.600000024  0.3    1.6e-05
                 actual[1]  0.200000003  0.400000006  0.2    1.4e-05
                 actual[0]  0.100000001  0.200000003  0.1    1.2e-05
      map        actual, 3; one mark per element, █ wrong, · right
                 ███

    Args:
        actual: an array of any framework.
        expected: an array of the same shape.
        reference: instead of ``expected``: a NumPy function, called with float64 copies of ``inputs`` by keyword.
        inputs: the inputs of the reference by name.
        compute: the precision in which a correct function may accumulate: ``float16``, ``bfloat16``, ``float32``
            or ``float64``. Outputs of float64 are computed in float64.
        flushes_subnormals: with a reference, whether subnormal numbers may become 0, as in :meth:`Case.judge`.
            None: only if ``actual`` or an input is an array of JAX or TensorFlow.

    Raises:
        AssertionError: it is not close; the message has the worst elements, the error in ulp, and a map.
        UserError: neither or both of ``expected`` and ``reference`` are given, or there are no inputs.
    """
    array = as_numpy(actual, _ACTUAL)
    if (expected is None) == (reference is None):
        raise UserError("assert_close needs either an expected array, or a reference with its inputs")
    if reference is not None:
        if inputs is None:
            raise UserError("assert_close: a reference needs its inputs, as inputs={'x': x}")
        wide = array.dtype.name in ("float64", "complex128")
        case, made = case_of_output(
            _ACTUAL, inputs, {_ACTUAL: array}, reference, compute=None if wide else compute
        )
        flushes = may_flush([actual, inputs]) if flushes_subnormals is None else flushes_subnormals
        verdict = case.judge(made, flushes_subnormals=flushes)
        if not verdict.passed:
            what = "not close" if verdict.status == "failed" else "the reference cannot be used"
            raise AssertionError(f"{what}\n{str(verdict).partition(chr(10))[2]}")
        return
    wanted = as_numpy(expected, "expected")
    if array.shape != wanted.shape:
        raise AssertionError(f"not close: actual has shape {list(array.shape)}, expected {list(wanted.shape)}")
    dtype = DTYPES[array.dtype.name]
    if wanted.dtype.kind == "c" != array.dtype.kind:
        raise AssertionError(f"not close: actual is {dtype}, expected is {wanted.dtype}")
    if dtype.is_inexact:
        wanted = wanted.astype(np.complex128 if dtype.kind == "complex" else np.float64)
    elif wanted.dtype.kind not in "biu":
        raise AssertionError(f"not close: actual is {dtype}, expected is {wanted.dtype}")
    rule = Fixed(FIXED_DEFAULTS[dtype.name]) if dtype.is_inexact else ExactTolerance()
    found = compare(_ACTUAL, dtype, np.asarray(array), wanted, rule, Compare())
    if not found.passed:
        share = f"{found.beyond:,} of {found.elements:,} elements ({100 * found.beyond / found.elements:.3g}%)"
        raise AssertionError(f"not close: {share}\n{comparison_text(found, {})}")
