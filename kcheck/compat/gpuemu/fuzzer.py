"""gpuemu's fuzzer: a sequence of cases generated from a seed, and a method that runs an op on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from kcheck import api
from kcheck.compat.gpuemu.fuzzing import Array, FuzzConfig, TestCase, generate_random_tensor, seeded_shapes
from kcheck.compat.gpuemu.ops import by_keyword, takes_dict
from kcheck.compat.gpuemu.results import (
    FailureText,
    FuzzResults,
    ValidationResult,
    raised,
    reproduction,
    result_of,
)
from kcheck.compat.gpuemu.rng import SeededRng, random_seed
from kcheck.frameworks import as_numpy
from kcheck.model import LEAST_AXES


class SeededFuzzer:
    """A sequence of cases; the same seed and configuration give the same cases.

    >>> from kcheck.compat import gpuemu
    >>> fuzzer = gpuemu.SeededFuzzer(42, gpuemu.FuzzConfig(max_dims=2, max_size=8))
    >>> fuzzer.next_test_case().shape == gpuemu.SeededFuzzer(42, fuzzer.config).next_test_case().shape
    True

    Args:
        seed: the seed of the sequence; or the configuration, which has a seed.
    """

    def __init__(self, seed: int | FuzzConfig, config: FuzzConfig | None = None) -> None:
        self.config = config or (seed if isinstance(seed, FuzzConfig) else FuzzConfig())
        given = self.config.seed if isinstance(seed, FuzzConfig) else seed
        self.seed = random_seed() if given is None else given
        self.reset()

    def reset(self) -> None:
        """Start again with the first case."""
        config = self.config
        ranges = (config.min_dims, config.max_dims, config.min_size, config.max_size)
        self._shapes = seeded_shapes(self.seed, ranges, config.named)

    def next_test_case(self) -> TestCase:
        """The next case."""
        seed, shape = next(self._shapes)
        rng = SeededRng(seed)
        dtype, layout = (
            rng.derive("dtype").choice(self.config.dtypes),
            rng.derive("layout").choice(self.config.layouts),
        )
        array = generate_random_tensor(seed, shape, dtype)
        if len(shape) >= LEAST_AXES.get(layout, 1):
            ((_, array),) = api.layouts(array, [layout], seed=seed)
        else:
            layout = "contiguous"
        return TestCase(seed, shape, dtype, layout, {"input": array})

    next = next_test_case

    def iterator(self, max_iterations: int = 1000) -> Iterator[TestCase]:
        """At most ``max_iterations`` cases."""
        return (self.next_test_case() for _ in range(max_iterations))

    def run(self, op_fn: Callable[..., object], reference: Callable[..., object] | None = None) -> FuzzResults:
        """Run an op on ``config.iterations`` cases.

        Args:
            op_fn: called with its input; with the dict of inputs if its parameter is called ``inputs``.
            reference: a NumPy function that is called in the same way. Without it, the op must not raise, must
                return finite numbers and the same bits twice, and must leave its inputs unchanged.
        """
        results = [self._one(case, op_fn, reference) for case in self.iterator(self.config.iterations)]
        failures = [result for result in results if not result.passed]
        return FuzzResults(self.seed, len(results), len(results) - len(failures), len(failures), failures)

    def _one(
        self, case: TestCase, op: Callable[..., object], reference: Callable[..., object] | None
    ) -> ValidationResult:
        name = getattr(op, "__name__", "op")
        before = {key: array.copy() for key, array in case.inputs.items()}
        try:
            first = as_numpy(_called(op, case.inputs), "the output")
            second = as_numpy(_called(op, case.inputs), "the output")
        except Exception as error:  # user code: any exception is a failure of the op
            return raised(error, name, case.seed, before, case.layout)
        if reference is not None:
            told = by_keyword(reference, tuple(before), _called)
            verdict = api.validate(name, before, first, told)
            return result_of(verdict, name, case.seed, before, case.layout)
        wrong = _without_reference(case.inputs, before, first, second)
        texts = [FailureText(text, kind="invariant") for text in wrong]
        info = reproduction(case.seed, before, case.layout) if wrong else None
        return ValidationResult(not wrong, case.seed, name, failures=texts, repro_info=info)


def _called(function: Callable[..., object], inputs: Mapping[str, object]) -> object:
    return function(dict(inputs)) if takes_dict(function) else function(*inputs.values())


def _without_reference(
    inputs: Mapping[str, Array], before: Mapping[str, Array], first: Array, second: Array
) -> list[str]:
    found = [
        f"the input {name} was changed" for name in inputs if inputs[name].tobytes() != before[name].tobytes()
    ]
    if first.dtype.kind in "fcV" and not np.isfinite(first.astype(np.complex128)).all():
        found.append("the output has NaN or infinite elements, and the inputs have none")
    if first.tobytes() != second.tobytes():
        found.append("two calls with the same inputs gave different bits")
    return found
