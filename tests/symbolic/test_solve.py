"""Sizes: derived in order, and solved for."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.model import Choices, Dim, Expression, Range, Span
from kcheck.symbolic import CycleError, ExpressionError, Solver, dependency_order, derive, witness
from kcheck.symbolic.solve import MAX_SIZE, Box

_SPAN = Span("spec.yaml")


def _dims(**domains: Choices | Range | str) -> dict[str, Dim]:
    return {
        name: Dim(name, Expression(domain, _SPAN) if isinstance(domain, str) else domain, _SPAN)
        for name, domain in domains.items()
    }


def _constraints(*texts: str) -> list[Expression]:
    return [Expression(text, _SPAN) for text in texts]


def test_derived_dims_are_computed_in_order_of_dependence() -> None:
    """A dim may be derived from one that is declared below it."""
    dims = _dims(C="B + 1", B="2 * A", A=Range(1, 9))
    assert derive(dims, {"A": 3}) == {"C": 7, "B": 6, "A": 3}


def test_a_cycle_is_named() -> None:
    """The message walks the circle, and only the circle."""
    with pytest.raises(CycleError, match="'B' depends on itself: B -> C -> B"):
        dependency_order({"A": "B", "B": "C + 1", "C": "B"})


def test_a_long_chain_does_not_exhaust_the_stack() -> None:
    """5,000 dims, each derived from the next, are put in order."""
    chain = {f"d{i}": f"d{i + 1}" for i in range(5000)}
    assert dependency_order(chain)[0] == "d4999"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("A - 10", "dim 'B': a size must not be negative, but is -7"),
        ("1 // (A - 3)", "dim 'B': 1 // 0 divides"),
    ],
)
def test_a_derived_dim_without_a_value_names_itself(expression: str, message: str) -> None:
    """The message says which dim has no size."""
    with pytest.raises(ExpressionError, match=message):
        derive(_dims(A=Range(1, 9), B=expression), {"A": 3})


@pytest.mark.parametrize(
    ("dims", "constraints", "status"),
    [
        (_dims(B=Choices((1, 2, 5)), N=Range(1, 512)), ["B * N * N <= 1_000_000"], "found"),
        (_dims(M=Range(1, 2048), N=Range(1, 2048)), ["M == N", "M % 32 == 0", "M > 1000"], "found"),
        (_dims(M=Range(1, MAX_SIZE), N=Range(1, MAX_SIZE)), ["M % 1000003 == 5", "N == 2 * M"], "found"),
        (_dims(M=Range(1, 100_000)), ["next_pow2(M) == M", "M > 5000"], "found"),
        (_dims(M=Range(1, 100_000), L="log2(M)"), ["L == 13"], "found"),
        (_dims(M=Range(0, 1000), N=Range(0, 1000)), ["N == 0 or M % N == 0", "M > N", "N > 7"], "found"),
        (_dims(N=Range(3, 3)), ["1 // (N - 3) == 1 or N == 3"], "none"),
        (_dims(M=Range(1, 64)), ["M > 64"], "none"),
        (_dims(M=Range(1, 64), K="M - 100"), [], "none"),
        (_dims(M=Range(1, 2048), N=Range(1, 2048)), ["M > N", "N > M"], "none"),
        (_dims(A=Range(1, MAX_SIZE), B=Range(1, MAX_SIZE), C=Range(1, 99)), ["A < B", "B < C", "C < A"], "none"),
        (_dims(M=Range(1, MAX_SIZE), N=Range(1, MAX_SIZE)), ["M > N", "N > M"], "none"),
        (_dims(M=Range(1, MAX_SIZE), N=Range(1, MAX_SIZE)), ["2 * M <= N - 3 and N < M + M"], "none"),
        (_dims(M=Range(1, MAX_SIZE), N=Range(1, MAX_SIZE)), ["M >= N", "N >= M", "M > 7"], "found"),
        (_dims(M=Range(1, 2048), H="M // 2"), ["H > M"], "none"),
        (_dims(M=Range(2, 2048), N=Range(2, 2048)), ["M * N == 7919"], "none"),
        (_dims(M=Range(0, 1_000_000)), ["M % 32 == 32"], "none"),
        (_dims(M=Range(5, 4)), [], "none"),
        (_dims(A=Range(1, 10**5), B=Range(1, 10**5), C=Range(1, 10**5)), ["A**3 + B**3 == C**3"], "unknown"),
    ],
)
def test_satisfiability(dims: dict[str, Dim], constraints: list[str], status: str) -> None:
    """What can be met is met, what cannot is proved, and Fermat's last theorem is admitted to be beyond us."""
    found = witness(dims, _constraints(*constraints))
    assert found.status == status
    if status == "found":
        drawn = {name: found.sizes[name] for name, dim in dims.items() if not isinstance(dim.domain, Expression)}
        assert derive(dims, drawn) == found.sizes
        assert Solver(dims, _constraints(*constraints)).satisfied(found.sizes)


@pytest.mark.parametrize(
    ("assigned", "name", "bounds"),
    [({}, "N", (1, 1000)), ({"B": 5}, "N", (1, 447)), ({"N": 1000}, "B", (1, 1)), ({"N": 1001}, "B", None)],
)
def test_bounds_shrink_as_dims_are_drawn(
    assigned: dict[str, int], name: str, bounds: tuple[int, int] | None
) -> None:
    """What earlier draws leave a dim is found exactly for a product."""
    solver = Solver(_dims(B=Choices((5, 1, 2)), N=Range(1, 2048)), _constraints("B * N * N <= 1_000_000"))
    assert solver.bounds(assigned, name) == bounds


@pytest.mark.parametrize("high", [10**6, MAX_SIZE])
@pytest.mark.parametrize(
    ("constraint", "bounds"),
    [("B * B + 1 <= 16000", (1, 126)), ("B * B + 1 == 16000", None), ("B > 1000", (1001, 0))],
)
def test_bounds_of_a_wide_range_cost_its_logarithm(
    monkeypatch: pytest.MonkeyPatch, constraint: str, bounds: tuple[int, int] | None, high: int
) -> None:
    """Both ends are found in a few hundred evaluations however wide the range is."""
    solver = Solver(_dims(B=Range(1, high)), _constraints(constraint))
    evaluations = 0

    def counted(self: Solver, box: Box, refuted=Solver._refuted) -> bool:
        nonlocal evaluations
        evaluations += 1
        assert evaluations < 400
        return refuted(self, box)

    monkeypatch.setattr(Solver, "_refuted", counted)
    expected = None if bounds is None else (bounds[0], bounds[1] or high)
    assert solver.bounds({}, "B") == expected


def test_admits_filters_what_bounds_cannot() -> None:
    """K % 32 == 0 leaves K's interval whole, and one value at a time is decided."""
    solver = Solver(_dims(K=Range(1, 100), H="K // 2"), _constraints("K % 32 == 0", "H > 16"))
    assert [k for k in range(1, 101) if solver.admits({"K": k})] == [64, 96]
    assert solver.bounds({}, "K") == (64, 96)
    assert solver.witness({"K": 33}).status == "none"


_SIDE = st.sampled_from(
    """A; B; C; A + B; A - B; A * B; 2 * A; A % 3; B // 2; A ** 2; max(A, B); A / B; B % A; ceildiv(A, B);
    abs(A - B); sqrt(A); log2(B); next_pow2(A); -B; (A - 3) ** B; A // (B - 2); 0; 1; 2.5; 7; -3; A % (B - 9);
    min(max(A / 2, 1), 3) % 2; (A - 4) % 3; (A < B); (not A)""".replace("\n", "").split(";")
)


@settings(deadline=None, max_examples=300)
@given(
    lows=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    widths=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    derived=st.sampled_from(["A + B", "A - B", "A * B", "A / 2", "B // 2", "log2(A)", "7"]),
    constraints=st.lists(
        st.one_of(
            st.tuples(_SIDE, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), _SIDE).map(" ".join),
            st.tuples(_SIDE, _SIDE, _SIDE).map(lambda t: f"{t[0]} <= {t[1]} < {t[2]} or {t[1]} == 2"),
            st.tuples(_SIDE, _SIDE).map(lambda t: f"{t[0]} == 2 and not {t[1]} > 1"),
        ),
        max_size=3,
    ),
)
def test_the_solver_agrees_with_trying_everything(
    lows: tuple[int, int], widths: tuple[int, int], derived: str, constraints: list[str]
) -> None:
    """It never says none where an assignment exists, never loses a value that can be completed, and is decided
    on small domains."""
    a, b = (range(low, low + width + 1) for low, width in zip(lows, widths, strict=True))
    dims = _dims(A=Range(a[0], a[-1]), B=Range(b[0], b[-1]), C=derived)
    solver = Solver(dims, _constraints(*constraints))
    solutions = []
    for x, y in product(a, b):
        try:
            sizes = derive(dims, {"A": x, "B": y})
        except ExpressionError:
            continue
        if solver.satisfied(sizes):
            solutions.append((x, y))
    assert solver.witness().status == ("found" if solutions else "none")
    bounds = solver.bounds({}, "A")
    for x, y in solutions:
        assert bounds is not None
        assert bounds[0] <= x <= bounds[1]
        assert solver.admits({"A": x})
        assert solver.admits({"A": x, "B": y})
