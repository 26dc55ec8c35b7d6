"""The nouns of kcheck: frozen dataclasses with no behaviour beyond their own meaning.

::

    YAML -> OpSpec -> Case -> Outcome -> Verdict -> Event -> store, reporters
"""

from kcheck.model.calibration import Calibration, Envelope
from kcheck.model.case import Case
from kcheck.model.dtypes import DTYPES, DType
from kcheck.model.event import (
    Captured,
    CaseFinished,
    Compiling,
    Event,
    RunFinished,
    RunStarted,
    Sanitized,
    SpecFinished,
    SpecRefused,
    SpecStarted,
)
from kcheck.model.outcome import Finding, Index3, Outcome
from kcheck.model.schedule import NATURAL, Schedule
from kcheck.model.snapshot import ArraySnapshot, Snapshot
from kcheck.model.span import Fault, Span
from kcheck.model.spec import (
    INSTRUMENTED,
    LAYOUTS,
    LEVELS,
    SANITIZERS,
    Artifact,
    Bounds,
    Choices,
    Compare,
    Dim,
    Distribution,
    Example,
    Expression,
    Function,
    Input,
    Invariant,
    Launch,
    Level,
    NameArg,
    OpSpec,
    Output,
    Param,
    Range,
    Scalar,
    StrideArg,
    Tolerance,
    TypeVariable,
)
from kcheck.model.verdict import Comparison, Element, Spread, Status, Verdict

__all__ = [
    "DTYPES",
    "INSTRUMENTED",
    "LAYOUTS",
    "LEVELS",
    "NATURAL",
    "SANITIZERS",
    "ArraySnapshot",
    "Artifact",
    "Bounds",
    "Calibration",
    "Captured",
    "Case",
    "CaseFinished",
    "Choices",
    "Compare",
    "Comparison",
    "Compiling",
    "DType",
    "Dim",
    "Distribution",
    "Element",
    "Envelope",
    "Event",
    "Example",
    "Expression",
    "Fault",
    "Finding",
    "Function",
    "Index3",
    "Input",
    "Invariant",
    "Launch",
    "Level",
    "NameArg",
    "OpSpec",
    "Outcome",
    "Output",
    "Param",
    "Range",
    "RunFinished",
    "RunStarted",
    "Sanitized",
    "Scalar",
    "Schedule",
    "Snapshot",
    "Span",
    "SpecFinished",
    "SpecRefused",
    "SpecStarted",
    "Spread",
    "Status",
    "StrideArg",
    "Tolerance",
    "TypeVariable",
    "Verdict",
]
