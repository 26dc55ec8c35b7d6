"""The decorator: a function whose calls are compared with a reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Unpack

from kcheck.monitor.calls import OnMismatch
from kcheck.monitor.checker import ATOL, RTOL, EquivalenceChecker
from kcheck.monitor.decorating import F, SiteSettings, VerifierNames, monitored
from kcheck.monitor.outliers import ExecutionOutlierDetector

if TYPE_CHECKING:
    from kcheck.api.spec import SpecLike


def equivalent(
    reference: Callable[..., Any] | None = None,
    on_mismatch: OnMismatch | None = None,
    *,
    rtol: float = RTOL,
    atol: float = ATOL,
    outlier_detector: ExecutionOutlierDetector | Literal[False] | None = None,
    sample_probability: float | None = None,
    spec: SpecLike | None = None,
    **theirs: Unpack[VerifierNames],
) -> Callable[[F], F]:
    """A decorator: while a checker runs, calls of the function are compared with a reference in the background.

    A call returns the result of the function without waiting for the check. If the call is checked, its arguments
    and its result are copied before it returns. The reference gets copies of the arguments as they were before the
    call, so functions that work in place are checked, too. If the function returns None, its array arguments after
    the call are its result; the reference changes its own copies in place, or returns the expected arrays.

    >>> import numpy as np
    >>> from kcheck.monitor import EquivalenceChecker, equivalent
    >>> @equivalent(lambda x: x.sum(axis=1), "raise")
    ... def row_sum(x):
    ...     return x[:, :4].sum(axis=1)  # rows have more elements than four
    >>> _ = EquivalenceChecker.start(sample_probability=1.0)
    >>> row_sum(np.ones((2, 5), np.float32))
    array([4., 4.], dtype=float32)
    >>> EquivalenceChecker.stop()
    Traceback (most recent call last):
    ...
    kcheck.monitor.mismatch.MismatchError: ...

    Args:
        reference: a correct function of the same signature. With ``spec``: a NumPy function that replaces the
            spec's reference; None: the spec's. A torch module is copied for each call that is checked.
        on_mismatch: what to do: a function, which is called with a :class:`Mismatch` in another thread;
            ``"raise"``: raise an error at the next call or when the checker stops; ``"log"``; ``"save"``: write a
            ``.kcase`` file, with ``spec``. None: ``"log"``.
        rtol, atol: the tolerances: ``abs(actual - expected) <= atol + rtol * abs(expected)``.
        outlier_detector: selects calls that are always checked; None: an :class:`OutlierDetector` for each of
            the first four array arguments; False: none.
        sample_probability: the probability of checking other calls; None: the checker's.
        spec: a spec, or the path of a spec file, whose inputs have the names of the function's parameters. The
            noise floor of each call then judges instead of ``rtol`` and ``atol``.
        theirs: ``ground_truth_function`` and ``failure_callback``, cuda-kernel-verifier's names of the first two.

    Raises:
        UserError: there is no reference, ``"save"`` without ``spec``, the function is a coroutine or generator or
            cannot be called, or another argument is not allowed.
        SpecError: the spec is invalid.
    """
    settings = SiteSettings(rtol, atol, outlier_detector, sample_probability, spec)
    return monitored(EquivalenceChecker.default(), reference, on_mismatch, settings, **theirs)
