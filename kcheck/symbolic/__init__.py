"""The expression language of op specs: integers, floats, sizes and, in invariants, arrays.

A small closed language (docs/spec.md, "Expressions"): it has no attributes, no subscripts and no calls of anything
but its own functions, and the size of results is bounded, so untrusted text is safe to evaluate.

::

    parse(text) -> Node            evaluate(node, env) -> number        evaluate_arrays(node, env) -> array
    derive(dims, drawn)            Solver(dims, constraints)            witness(dims, constraints)
"""

from kcheck.symbolic.arrays import evaluate_arrays
from kcheck.symbolic.ast import Binary, ExpressionError, FunctionCall, Logical, Name, Node, Number, Relation, Unary
from kcheck.symbolic.derive import CycleError, dependency_order, derive
from kcheck.symbolic.evaluate import evaluate, evaluate_size
from kcheck.symbolic.functions import SCALAR_FUNCTIONS
from kcheck.symbolic.inspect import check_scalar, fractional, name_nodes, names
from kcheck.symbolic.lexer import shorten
from kcheck.symbolic.parser import SIZEOF, parse
from kcheck.symbolic.solve import MAX_SIZE, Solver, Witness, witness

__all__ = [
    "MAX_SIZE",
    "SCALAR_FUNCTIONS",
    "SIZEOF",
    "Binary",
    "CycleError",
    "ExpressionError",
    "FunctionCall",
    "Logical",
    "Name",
    "Node",
    "Number",
    "Relation",
    "Solver",
    "Unary",
    "Witness",
    "check_scalar",
    "dependency_order",
    "derive",
    "evaluate",
    "evaluate_arrays",
    "evaluate_size",
    "fractional",
    "name_nodes",
    "names",
    "parse",
    "shorten",
    "witness",
]
