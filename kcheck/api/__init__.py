"""The Python API. ``kcheck/__init__.py`` loads each public name when it is first used.

The functions correspond to kcheck's commands, use the same runner, oracle and minimizer, and return values.
"""

from kcheck.api.drawing import Case, case_of, cases
from kcheck.api.failing import Minimized, Reproduction, minimize, reproduce
from kcheck.api.generators import SeededRng, dtypes, layouts, shapes, values
from kcheck.api.grading import grade
from kcheck.api.judging import assert_close, validate
from kcheck.api.proving import Proofs, prove
from kcheck.api.report import Report
from kcheck.api.running import check, use
from kcheck.api.spec import Spec, load_spec
from kcheck.api.tools import Execution, Lint, calibrate, exec, lint  # noqa: A004  # the name of the command
from kcheck.api.verdict import Failure, Verdict
from kcheck.grading.grader import Graded

__all__ = [
    "Case",
    "Execution",
    "Failure",
    "Graded",
    "Lint",
    "Minimized",
    "Proofs",
    "Report",
    "Reproduction",
    "SeededRng",
    "Spec",
    "Verdict",
    "assert_close",
    "calibrate",
    "case_of",
    "cases",
    "check",
    "dtypes",
    "exec",
    "grade",
    "layouts",
    "lint",
    "load_spec",
    "minimize",
    "prove",
    "reproduce",
    "shapes",
    "use",
    "validate",
    "values",
]
