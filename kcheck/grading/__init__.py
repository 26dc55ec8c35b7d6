"""Judges candidates: untrusted kernels, whose author may try to pass without a correct kernel.

::

    problem ── spec, cases, expected values ──> grader ── arrays as bytes ──> confined process of the candidate
                                                       <── outputs, findings ──
                                                   judge, look for cheating ──> verdict
"""
