"""Decorates functions, so that their calls are compared with a reference."""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, TypeVar, Unpack

from kcheck.errors import UserError
from kcheck.monitor.calls import MonitoredCall, MonitoredSite, OnMismatch
from kcheck.monitor.mismatch import Mismatch
from kcheck.monitor.outliers import ExecutionOutlierDetector
from kcheck.monitor.running import Run, inside

if TYPE_CHECKING:
    from kcheck.api.spec import SpecLike

F = TypeVar("F", bound=Callable[..., Any] | type)


@dataclass(frozen=True)
class SiteSettings:
    """The keyword arguments of :func:`equivalent` that define how calls are chosen and judged."""

    rtol: float
    atol: float
    outlier_detector: ExecutionOutlierDetector | Literal[False] | None
    sample_probability: float | None
    spec: SpecLike | None

    def check(self) -> None:
        """
        Raises:
            UserError: a tolerance is negative or NaN, the probability is not in [0, 1], or the detector is not
                one.
        """
        for name in ("rtol", "atol"):
            if not getattr(self, name) >= 0:  # NaN too
                raise UserError(f"{name} is {getattr(self, name)!r}; it must be 0 or positive")
        if self.sample_probability is not None:
            check_probability(self.sample_probability)
        detector: Any = self.outlier_detector
        if detector and not hasattr(detector, "is_outlier"):
            raise UserError(f"outlier_detector is {detector!r}; use an ExecutionOutlierDetector, None or False")


class VerifierNames(TypedDict, total=False):
    """cuda-kernel-verifier's names of the first two arguments of :func:`equivalent`."""

    ground_truth_function: Callable[..., Any]
    failure_callback: Callable[[Mismatch], object]


class SiteOwner(Protocol):
    """The checker of a function: its run, if it has been started, and its functions."""

    _run: Run | None
    _sites: weakref.WeakSet[MonitoredSite]


def monitored(
    checker: SiteOwner,
    reference: Callable[..., Any] | None,
    on_mismatch: OnMismatch | None,
    settings: SiteSettings,
    **theirs: Unpack[VerifierNames],
) -> Callable[[F], F]:
    """:func:`equivalent`, for functions of the given checker."""
    unknown = set(theirs) - set(VerifierNames.__annotations__)
    if unknown:
        raise TypeError(f"equivalent() got an unexpected keyword argument {min(unknown)!r}")
    reference = theirs.get("ground_truth_function", reference)
    on_mismatch = theirs.get("failure_callback", on_mismatch)
    if reference is None and settings.spec is None:
        raise UserError("@equivalent needs a reference, or spec= of a spec that has one")
    if reference is not None and not callable(reference):
        raise UserError(f"the reference is {reference!r}; pass a function")
    settings.check()
    if not callable(on_mismatch) and on_mismatch not in (None, "raise", "log", "save"):
        raise UserError(f"on_mismatch is {on_mismatch!r}; use a function, 'raise', 'log' or 'save'")
    if on_mismatch == "save" and settings.spec is None:
        raise UserError("on_mismatch='save' needs spec=, with which `kcheck reproduce` runs the case again")

    def decorate(function: Any) -> Any:
        if inspect.isclass(function):
            owner: Any = function
            owner.forward = decorate(owner.forward)
            return owner
        if isinstance(function, staticmethod):
            return staticmethod(decorate(function.__func__))
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(function, torch.nn.Module):
            function.forward = decorate(function.forward)
            return function
        if not callable(function):
            raise UserError(f"@equivalent: {function!r} is not a function")
        kind = next((word for is_, word in _LATER if is_(function)), None)
        if kind is not None:
            name = getattr(function, "__qualname__", function)
            raise UserError(f"@equivalent: {name} is a {kind}; decorate the function that computes the result")
        return _wrapped(checker, _site(function, reference, on_mismatch, settings), function)

    return decorate


_LATER: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (inspect.iscoroutinefunction, "coroutine"),
    (inspect.isgeneratorfunction, "generator"),
    (inspect.isasyncgenfunction, "generator"),
)
"""Kinds of functions whose body has not run when the call returns."""


def _site(
    function: Any,
    reference: Callable[..., Any] | None,
    on_mismatch: OnMismatch | None,
    settings: SiteSettings,
) -> MonitoredSite:
    judge = None
    if settings.spec is not None:
        from kcheck.monitor.specs import SpecJudge  # a slow import, and most functions have no spec

        judge = SpecJudge(settings.spec, reference, function)
    return MonitoredSite(
        f"{getattr(function, '__module__', None) or ''}.{getattr(function, '__qualname__', function)}".lstrip("."),
        reference if reference is not None else _no_reference,
        on_mismatch or "log",
        settings.rtol,
        settings.atol,
        settings.outlier_detector,
        settings.sample_probability,
        judge,
    )


def _no_reference(*args: Any, **kwargs: Any) -> Any:
    """The reference of a function whose spec has one."""
    raise UserError("this function is checked against the reference of its spec")


def _wrapped(checker: SiteOwner, site: MonitoredSite, function: Callable[..., Any]) -> Callable[..., Any]:
    hooks = _HOOKS
    hooks.arm()
    checker._sites.add(site)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        call = hooks.begin(checker, site, args, kwargs)
        if call is None:
            return function(*args, **kwargs)
        result = function(*args, **kwargs)
        hooks.end(call, result, args, kwargs)
        return result

    return wrapper


def _begin(
    checker: SiteOwner, site: MonitoredSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> MonitoredCall | None:
    _HOOKS.arm()
    run = checker._run
    if run is None or getattr(inside, "checking", False):
        return None
    return run.begin(site, args, kwargs)


def _end(call: MonitoredCall, result: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    run = call.run
    if run is not None and call.token is run.token:
        run.end(call, result, args, kwargs)


class _Hooks:
    """The functions that a monitored function calls, excluded from ``torch.compile``: the graph breaks around
    them.

    The mark makes the compiler break the graph. ``torch.compiler.disable`` also prevents it from compiling the
    code in between. It imports the compiler, so it is used only after the program has imported the compiler.
    """

    def __init__(self) -> None:
        self.begin, self.end = _begin, _end
        self._armed = False

    def arm(self) -> None:
        """Disable the compiler for them, if it has been imported."""
        if not self._armed and "torch._dynamo" in sys.modules:
            disable = sys.modules["torch"].compiler.disable
            self.begin, self.end = disable(_begin), disable(_end)
            self._armed = True


for _hook in (_begin, _end):
    vars(_hook)["_torchdynamo_disable"] = True
_HOOKS = _Hooks()


def check_probability(probability: float) -> None:
    """
    Raises:
        UserError: a sample probability is not in [0, 1].
    """
    if not 0 <= probability <= 1:
        raise UserError(f"the sample probability is {probability}; it must be between 0 and 1")
