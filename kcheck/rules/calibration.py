"""No calibration for this case."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="No calibration for this case",
    why="`tolerance: calibrated` needs measured errors.",
    fix="Run `kcheck calibrate` on a correct kernel.",
    no_example=(
        "the spec has `tolerance: calibrated`, but calibration.yaml has no entry for the dtypes of a "
        "case. Run `kcheck calibrate` again on a correct kernel."
    ),
)
