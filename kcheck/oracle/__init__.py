"""Judges a kernel's results by reference, tolerance and invariants.

``judge`` turns the outcome of a launch into a verdict; ``Vacuity`` observes the cases of a spec and warns if a
kernel that computes nothing would pass.
"""

from kcheck.oracle.judge import CALLER, judge
from kcheck.oracle.truth import Expected
from kcheck.oracle.vacuous import Vacuity, unjudged

__all__ = ["CALLER", "Expected", "Vacuity", "judge", "unjudged"]
