"""gpuemu's client without a daemon: every request is answered in this process."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kcheck import api
from kcheck.compat.gpuemu.fuzzing import Array
from kcheck.compat.gpuemu.given import Derive, GivenCall
from kcheck.compat.gpuemu.history import HISTORY, GpuemuRecord
from kcheck.compat.gpuemu.kept import lint_text, write_baseline
from kcheck.compat.gpuemu.ops import ClientError, Op, as_declared, by_keyword, find, run_by, spec_of
from kcheck.compat.gpuemu.results import (
    FuzzResults,
    MinimizeResult,
    ReproduceResult,
    ValidationResult,
    raised,
    result_of,
)
from kcheck.compat.gpuemu.rng import random_seed
from kcheck.frameworks import may_flush
from kcheck.model import OpSpec
from kcheck.version import __version__

PROTOCOL_VERSION = 1
STRATEGIES = {"binary-search-dims": "dims", "binary-search-values": "values"}


class Pong(dict[str, Any]):
    """The answer to a ping: a dict that is equal to ``"pong"``, because gpuemu's documentation uses both."""

    def __eq__(self, other: object) -> bool:
        return other == "pong" if isinstance(other, str) else super().__eq__(other)

    __hash__ = None


class Client:
    """gpuemu's client. Ops are specs of the project, or registered with :func:`register`.

    Results are kept in this process, at most 10,000, and shared by all clients.

    >>> import numpy as np
    >>> from kcheck.compat import gpuemu
    >>> client = gpuemu.Client()
    >>> client.ping()["protocol_version"]
    1
    >>> results = client.fuzz_op_client_side(
    ...     "softmax", run_op=lambda inputs: inputs["x"] * 0, iterations=3, seed=42
    ... )
    >>> f"{results.passed}/{results.total}"
    '0/3'

    Args:
        socket_path: not used: there is no daemon.
        timeout_ms: the time limit of one launch of a kernel.
    """

    def __init__(self, socket_path: str | None = None, timeout_ms: int = 30000) -> None:
        self.socket_path = socket_path
        self.timeout_ms = timeout_ms
        self._begun = time.monotonic()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def ping(self) -> Pong:
        """The version of kcheck and of the protocol, and the age of this client in seconds."""
        age = int(time.monotonic() - self._begun)
        return Pong(version=__version__, protocol_version=PROTOCOL_VERSION, uptime_secs=age)

    def validate_op(
        self,
        op_name: str,
        inputs: Mapping[str, object],
        output: object,
        dtype: str | None = None,
        seed: int | None = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        **kwargs: Any,
    ) -> ValidationResult:
        """Compare an output with the reference of its op.

        Args:
            inputs: arrays of any framework; numbers are params.
            dtype: the precision of the op; default: that of the widest input, if the output is wider.
            seed: identifies the result; default: a random one.
            atol, rtol: a fixed tolerance, instead of the spec's or of the error that rounding can cause.
            kwargs: passed to a registered reference.

        Raises:
            ClientError: the op is not known.
            SpecError, UserError: the inputs do not match the op.
        """
        return self.judged(GivenCall(op_name, inputs, output, dtype, atol, rtol, kwargs), seed)

    def judged(self, call: GivenCall, seed: int | None = None, derive: Derive | None = None) -> ValidationResult:
        """Judge a call, and its derivatives if it passes; the result is kept."""
        begun = time.monotonic()
        result = call.result(random_seed() if seed is None else seed, derive)
        return self._kept(result, begun, None, None, call.arrays())

    def _kept(
        self,
        result: ValidationResult,
        begun: float,
        spec: OpSpec | None,
        run: Callable[..., object] | None,
        inputs: Mapping[str, Array],
    ) -> ValidationResult:
        result.duration_ms = int(1000 * (time.monotonic() - begun))
        held = {} if result.passed else {name: array.copy() for name, array in inputs.items()}
        if result.repro_info is not None:
            result.repro_info.input_snapshot = held
        return HISTORY.add(GpuemuRecord(result, spec, run, held))

    def get_result(self, seed: int) -> ValidationResult | None:
        """The result for a seed; None if there is no such result."""
        record = HISTORY.records.get(seed)
        return None if record is None else record.result

    def list_results(self, limit: int = 100) -> list[ValidationResult]:
        """Results, the newest first."""
        return HISTORY.newest(limit)

    def list_failures(self, limit: int = 20) -> list[ValidationResult]:
        """Results of cases that failed, the newest first."""
        return HISTORY.newest(limit, failed=True)

    def set_baseline(self, tag: str) -> Path:
        """Write the largest errors and the counts of every op so far to ``baselines/gpuemu/TAG.json``.

        ``kcheck baseline save`` runs specs and keeps more: registers, spills, occupancy.

        Returns:
            The path of the file.

        Raises:
            ClientError: the tag is not a name, or there are no results.
        """
        return write_baseline(tag)

    store_baseline = set_baseline

    def fuzz_op(
        self,
        op_name: str,
        seed: int | None = None,
        iterations: int = 100,
        fail_fast: bool = False,
        batch_sizes: Sequence[int] | None = None,
        seq_lengths: Sequence[int] | None = None,
        hidden_dims: Sequence[int] | None = None,
        dtypes: Sequence[str] | None = None,
        layouts: Sequence[str] | None = None,
    ) -> FuzzResults:
        """Run an op that kcheck can run: the kernel or function of a spec, or the function of
        ``register(run=...)``.

        Args:
            seed: the master seed; default: a random one.
            batch_sizes, seq_lengths, hidden_dims: sizes of an op without a spec.

        Raises:
            ClientError: the op is not known, or nothing is registered that runs it.
        """
        op, seed = find(op_name), random_seed() if seed is None else seed
        sizes = {"batch": batch_sizes, "seq": seq_lengths, "hidden": hidden_dims}
        model = spec_of(op, dtypes=dtypes, layouts=layouts, sizes=sizes)
        if op.run is not None:
            whole = op.run
            run = by_keyword(whole, tuple(model.inputs))
            return self._fuzz(op, model, lambda inputs: run(**inputs), iterations, seed, fail_fast)
        if op.spec is None:
            what = f"nothing runs {op_name!r}: its reference is registered, not the op"
            raise ClientError(f"{what}; register it with run=, or call fuzz_op_client_side with run_op=")
        report = api.check(api.Spec._of(model, None), cases=iterations, seed=seed, timeout=self.timeout_ms / 1000)
        inputs = {failure.seed: failure.inputs for failure in report.failures}
        results: list[ValidationResult] = []
        for verdict in itertools.islice(report.verdicts, iterations):
            held = inputs.get(verdict.case.seed, {})
            result = result_of(verdict, op_name, verdict.case.seed, held, _layout(verdict.case.layouts))
            results.append(self._kept(result, time.monotonic(), model, None, held))
            if fail_fast and not result.passed:
                break
        return _counted(seed, results)

    def fuzz_op_client_side(
        self,
        op_name: str,
        run_op: Callable[[dict[str, Array]], object] | None = None,
        iterations: int = 100,
        seed: int | None = None,
        fail_fast: bool = False,
        op_schema: Mapping[str, Any] | None = None,
        dtypes: Sequence[str] | None = None,
        *,
        op_fn: Callable[[dict[str, Array]], object] | None = None,
        value_distribution: str | None = None,
    ) -> FuzzResults:
        """Run a function on the cases of an op, and compare its results with the reference.

        Args:
            run_op: called with a dict of NumPy arrays; returns an array of any framework. ``op_fn`` is another
                name for it.
            seed: the master seed; default: a random one.
            op_schema: the shapes of an op without a spec, as gpuemu describes them.
            value_distribution: the distribution of all inputs, such as ``adversarial``, for an op without a spec.

        Raises:
            ClientError: the op is not known, or no function was passed.
        """
        function = run_op if run_op is not None else op_fn
        if function is None:
            raise ClientError(f"{op_name}: pass the function that runs the op as run_op=")
        op, seed = find(op_name), random_seed() if seed is None else seed
        model = spec_of(op, schema=op_schema, dtypes=dtypes, values=value_distribution)
        return self._fuzz(op, model, function, iterations, seed, fail_fast)

    def _fuzz(
        self,
        op: Op,
        model: OpSpec,
        run: Callable[[dict[str, Array]], object],
        iterations: int,
        seed: int,
        fail_fast: bool,
    ) -> FuzzResults:
        results: list[ValidationResult] = []
        for case in _cases(model, iterations, seed):
            results.append(self._run(op.name, model, case, run))
            if fail_fast and not results[-1].passed:
                break
        return _counted(seed, results)

    def _run(
        self, op_name: str, model: OpSpec, case: api.Case, run: Callable[[dict[str, Array]], object]
    ) -> ValidationResult:
        begun, layout = time.monotonic(), _layout(case.layouts)
        before = {name: array.copy() for name, array in case.inputs.items()}
        try:
            output = run(dict(case.inputs))
        except Exception as error:  # user code: any exception is a failure of the op
            return self._kept(raised(error, op_name, case.seed, before, layout), begun, model, run, before)
        verdict = case.judge(as_declared(output, model, before), flushes_subnormals=may_flush(output))
        return self._kept(result_of(verdict, op_name, case.seed, case.inputs, layout), begun, model, run, before)

    def get_test_case(self, op_name: str, seed: int | None = None) -> dict[str, Any]:
        """One case for the caller to run: ``seed``, ``inputs``, ``shape``, ``dtype`` and ``layout``.

        Args:
            seed: the seed of the case; the same seed gives the same case.
        """
        model = spec_of(find(op_name))
        case = api.case_of(api.Spec._of(model, None), random_seed() if seed is None else seed)
        return self._handed_out(op_name, model, case)

    def get_test_batch(
        self,
        op_name: str,
        count: int = 10,
        seed: int | None = None,
        op_schema: Mapping[str, Any] | None = None,
        dtypes: Sequence[str] | None = None,
    ) -> list[dict[str, Any]]:
        """Several cases for the caller to run; ``seed`` is the master seed."""
        model = spec_of(find(op_name), schema=op_schema, dtypes=dtypes)
        chosen = random_seed() if seed is None else seed
        return [self._handed_out(op_name, model, case) for case in _cases(model, count, chosen)]

    def _handed_out(self, op_name: str, model: OpSpec, case: api.Case) -> dict[str, Any]:
        HISTORY.hand_out(op_name, case, model)
        first = next(iter(case.inputs.values()), None)
        return {
            "seed": case.seed,
            "inputs": dict(case.inputs),
            "shape": [] if first is None else list(first.shape),
            "dtype": "" if first is None else first.dtype.name,
            "layout": _layout(case.layouts),
        }

    def submit_output(
        self, op_name: str, inputs: Mapping[str, object], output: object, seed: int, **kwargs: Any
    ) -> ValidationResult:
        """Compare the output of a case with the reference.

        Args:
            seed: the one that :meth:`get_test_case` or :meth:`get_test_batch` returned with the inputs. With any
                other seed, this is the same as :meth:`validate_op`.
            kwargs: as for :meth:`validate_op`.
        """
        waiting = HISTORY.waiting.pop((op_name, seed), None)
        if waiting is None or kwargs:
            return self.validate_op(op_name, inputs, output, seed=seed, **kwargs)
        begun, case = time.monotonic(), waiting.case
        verdict = case.judge(as_declared(output, waiting.spec, case.inputs), flushes_subnormals=may_flush(output))
        result = result_of(verdict, op_name, seed, case.inputs, _layout(case.layouts))
        return self._kept(result, begun, waiting.spec, None, case.inputs)

    def reproduce(self, seed: int) -> ReproduceResult:
        """Run a failing case again: the kernel of the spec, or the function that failed.

        A call that only :meth:`validate_op` saw is not run again: its stored result is returned.

        Raises:
            ClientError: no result of this process has the seed.
        """
        record = self._record(seed)
        if record.spec is None or (record.run is None and not _runs_itself(record.spec)):
            return ReproduceResult(record.result, dict(record.inputs))
        if record.run is not None:
            case = api.case_of(api.Spec._of(record.spec, None), seed)
            inputs = {name: array.copy() for name, array in case.inputs.items()}
            return ReproduceResult(self._run(record.result.op_name, record.spec, case, record.run), inputs)
        done = api.reproduce(api.Spec._of(record.spec, None), seed, timeout=self.timeout_ms / 1000)
        if done.verdict is None:
            raise ClientError(f"the case {seed} no longer exists: {'; '.join(done.changed)}")
        layout = _layout(done.verdict.case.layouts)
        result = result_of(done.verdict, record.result.op_name, seed, done.inputs, layout)
        return ReproduceResult(result, dict(done.inputs))

    def minimize(
        self, seed: int, strategy: str | None = "binary-search-dims", max_iters: int = 100
    ) -> MinimizeResult:
        """Find the smallest case that fails in the same way. Every step runs the op.

        Args:
            strategy: ``binary-search-dims`` or ``binary-search-values``; None: both.

        Raises:
            ClientError: no result of this process has the seed, its op cannot be run again, or the strategy is
                unknown.
        """
        if strategy is not None and strategy not in STRATEGIES:
            raise ClientError(f"unknown strategy {strategy!r}; use {' or '.join(STRATEGIES)}")
        record = self._record(seed)
        if record.spec is None or (record.run is None and not _runs_itself(record.spec)):
            what = f"nothing runs the op of {seed}: only its output was passed"
            raise ClientError(f"{what}; use fuzz_op_client_side, which keeps the function")
        spec = api.Spec._of(record.spec, None) if record.run is None else run_by(record.spec, record.run)
        chosen: Any = "all" if strategy is None else STRATEGIES[strategy]
        most = max(10, max_iters)
        found = api.minimize(spec, seed, strategy=chosen, max_iters=most, timeout=self.timeout_ms / 1000)
        if found is None:
            passing = dataclasses.replace(record.result, passed=True, failures=[], repro_info=None)
            return MinimizeResult(seed, seed, _shape(record.inputs), passing)
        failure = found.failure
        layout = _layout(failure.case.layouts)
        result = result_of(failure.verdict, record.result.op_name, failure.seed, failure.inputs, layout)
        return MinimizeResult(seed, failure.seed, _shape(failure.inputs), result)

    def _record(self, seed: int) -> GpuemuRecord:
        record = HISTORY.records.get(seed)
        if record is None:
            what = f"no result of this process has the seed {seed}"
            raise ClientError(f"{what}; for a failure of `kcheck run`: kcheck reproduce {seed}")
        return record

    def lint_kernel(self, ptx_content: str, kernel_name: str | None = None) -> list[dict[str, Any]]:
        """Measure the kernels of a PTX text: registers, spills and so on, as the assembler allocates them.

        Raises:
            PtxError, KernelError: the text is not PTX, or has no kernel of this name.
        """
        return lint_text(ptx_content, kernel_name or "")


def _cases(model: OpSpec, count: int, seed: int) -> Iterator[api.Case]:
    """At most that many cases, including the examples of the spec."""
    return itertools.islice(api.cases(api.Spec._of(model, None), count=count, seed=seed), count)


def _counted(seed: int, results: list[ValidationResult]) -> FuzzResults:
    failures = [result for result in results if not result.passed]
    return FuzzResults(seed, len(results), len(results) - len(failures), len(failures), failures)


def _runs_itself(spec: OpSpec) -> bool:
    return (
        spec.function is not None
        or spec.kernel is not None
        or (spec.launcher is not None and spec.launcher.given is not api.spec.caller_runs)
    )


def _layout(layouts: Mapping[str, str]) -> str:
    return next(iter(layouts.values()), "contiguous")


def _shape(inputs: Mapping[str, Array]) -> tuple[int, ...]:
    return next((array.shape for array in inputs.values()), ())
