"""A signed report: an in-toto statement about a run, in a DSSE envelope.

Sources: in-toto Attestation Framework, "Statement" v1; Dead Simple Signing Envelope v1 (``PAE``, the envelope).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kcheck.model import SpecFinished
from kcheck.report.collect import Collected, OpenSpec
from kcheck.report.problems import Problem, problems, read_nothing

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:kcheck:report:v1"


def statement(run: Collected, reports: Mapping[str, str]) -> dict[str, Any]:
    """The statement about a run. The run recorded everything in it, except the digests of the reports.

    Args:
        reports: SHA-256 of report files, by name.
    """
    sources = {path: digest for opened, _ in run.specs for path, digest in opened.started.sources.items()}
    subjects = {**reports, **sources}
    found = problems(run, read_nothing)
    head: dict[str, Any] = {}
    if run.run is not None:
        head = {
            "kcheck": run.run.version,
            "versions": dict(run.run.versions),
            "command": run.run.command,
            "device": {"kind": run.run.device, "name": run.run.device_name},
            "started": run.run.started.isoformat(),
            "profile": run.run.profile,
            "strict": run.run.strict,
            "sanitize": {name: str(level) for name, level in run.run.sanitize.items()},
        }
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": subjects[name]}} for name in sorted(subjects)],
        "predicateType": PREDICATE,
        "predicate": {
            **head,
            "interrupted": run.interrupted,
            "notRun": list(run.finished.not_begun) if run.finished is not None else [],
            "refused": [{"spec": each.path, "errors": len(each.faults)} for each in run.refused],
            "ops": [_op(opened, finished, found) for opened, finished in run.specs],
        },
    }


def _op(opened: OpenSpec, finished: SpecFinished, found: Sequence[Problem]) -> dict[str, Any]:
    cases = [event.verdict.case for event in opened.cases]
    dims = {
        name: [case.dims[name] for case in cases if name in case.dims] for case in cases[:1] for name in case.dims
    }
    dtypes = {name: sorted({case.dtypes[name] for case in cases}) for case in cases[:1] for name in case.dtypes}
    mine = [problem for problem in found if problem.op == finished.op and problem.severity == "error"]
    incomplete = finished.skipped or not cases
    bad = finished.failed or any(finding.severity == "error" for finding in finished.findings)
    return {
        "op": finished.op,
        "spec": finished.path,
        "seed": str(opened.started.seed),
        "verdict": "error" if finished.errors else "failed" if bad else "incomplete" if incomplete else "passed",
        "cases": {
            "passed": finished.passed,
            "failed": finished.failed,
            "errors": finished.errors,
            "notRun": finished.skipped,
        },
        "dtypes": dtypes,
        "dims": {
            n: {"min": min(s), "max": max(s), "sizes": len(set(s)), "classes": list(finished.shapes.get(n, ()))}
            for n, s in dims.items()
        },
        "layouts": sorted({layout for case in cases for layout in case.layouts.values()}),
        "values": sorted({drawn.name for case in cases for drawn in case.values.values()}),
        "sanitizers": {
            each.name: {
                "level": str(each.level),
                "cases": each.cases,
                **({"proved": True} if each.proved else {}),
            }
            for each in finished.sanitizers
        },
        "problems": sorted({problem.rule for problem in mine}),
        "sources": dict(opened.started.sources),
    }


def signed(document: Mapping[str, Any], sign: Callable[[bytes], bytes], key_id: str) -> dict[str, Any]:
    """The envelope of a statement.

    Args:
        sign: returns the signature of bytes.
        key_id: a hint to the key; not authenticated.
    """
    payload = json.dumps(document, indent=1, sort_keys=True).encode()
    signature = sign(encoding(PAYLOAD_TYPE, payload))
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": key_id, "sig": base64.b64encode(signature).decode()}],
    }


def encoding(kind: str, payload: bytes) -> bytes:
    """The bytes to sign: DSSE's pre-authentication encoding of the type and the payload."""
    name = kind.encode()
    return b"DSSEv1 %d %s %d %s" % (len(name), name, len(payload), payload)
