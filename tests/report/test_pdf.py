"""The PDF of a signed report, read by pypdf: everything that the statement says, and nothing else."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import fake_events
import pytest
from pypdf import PdfReader
from writing import collected

from kcheck.model import Event, RunFinished
from kcheck.report.pdf import pdf
from kcheck.report.statement import statement

DIGEST = "5d" * 32


def shown(document: dict[str, Any]) -> str:
    """The text of all pages on one line."""
    pages = PdfReader(io.BytesIO(pdf(document, key_id="ab" * 32, envelope="r.dsse.json"))).pages
    return " ".join(" ".join(page.extract_text() for page in pages).split())


def statement_of(events: list[Event]) -> dict[str, Any]:
    """The statement as a reader of the envelope gets it."""
    document: dict[str, Any] = json.loads(json.dumps(statement(collected(events), {"r.html": DIGEST})))
    return document


def test_the_pdf_says_what_the_statement_says() -> None:
    """Verdicts, counts, dtypes, sizes, layouts, values, seed, versions, device, key and digests."""
    document = statement_of(fake_events.everything())
    document["predicate"]["versions"] = {"numba": "0.66.1"}
    text = shown(document)
    for op in document["predicate"]["ops"]:
        assert f"{op['verdict']} {op['op']}" in text
        assert op["seed"] in text
        for values in (*op["dtypes"].values(), op["layouts"], op["values"], op["problems"]):
            assert all(value in text for value in values)
    for name, dim in document["predicate"]["ops"][0]["dims"].items():
        assert f"{name} from {dim['min']} to {dim['max']}" in text or f"{name} {dim['min']}" in text
    assert all(word in text for word in ("numba 0.66.1", "simulator", "ab" * 32, "r.html", DIGEST, "page 1"))
    assert "kcheck verify r.dsse.json --key PUB" in text


def test_the_pdf_says_nothing_else() -> None:
    """Its numbers are those of the statement, sums of cases, counts of ops, or page numbers."""
    document = statement_of(fake_events.everything())
    known = json.dumps(document)
    totals = {str(sum(op["cases"].values())) for op in document["predicate"]["ops"]}
    ops = document["predicate"]["ops"]
    totals |= {str(len(ops)), str(sum(op["verdict"] == "passed" for op in ops)), "256", "1", "2", "3"}
    words = re.findall(r"\d+", shown(document).replace("ab" * 32, ""))
    assert words
    assert [word for word in words if word not in known and word not in totals] == []


def test_shape_classes_are_those_of_the_run() -> None:
    """As ``kcheck coverage`` names them."""
    done = fake_events.spec_finished(shapes={"M": ("1", "prime")})
    cases = [fake_events.case(number=n) for n in range(2)]
    document = statement_of([fake_events.started(), fake_events.spec_started(), *cases, done])
    assert document["predicate"]["ops"][0]["dims"]["M"]["classes"] == ["1", "prime"]
    assert "M from 1 to 2, 2 sizes: 1, prime" in shown(document)


def test_hostile_names_are_text() -> None:
    """Markup is shown, control characters are dropped, and characters that the fonts lack are escapes."""
    document = statement_of(fake_events.hostile())
    op = document["predicate"]["ops"][0]
    op["op"], op["spec"] = "<b>op</b>&amp;", "specs/核\x1b[31m.yaml"
    text = shown(document)
    assert "<b>op</b>&amp;" in text
    assert "specs/\\u6838.yaml" in text


@pytest.mark.parametrize("ops", [0, 200])
def test_any_number_of_ops(ops: int) -> None:
    """From none to many pages; the name of each is there."""
    events: list[Event] = [fake_events.started(ops)]
    for number in range(ops):
        op = f"op{number}" if number else "op" + "x" * 3000
        events += [fake_events.spec_started(op), fake_events.case(op), fake_events.spec_finished(op)]
    events.append(RunFinished(1.0, False))
    text = shown(statement_of(events))
    assert all(f"op{number} " in text for number in range(1, ops))
    assert ("0 of 0 ops passed" in text) == (not ops)


def test_the_same_statement_gives_the_same_bytes() -> None:
    """So that its digest can be checked by whoever has the statement."""
    document = statement_of(fake_events.everything())
    assert len({pdf(document, key_id="k", envelope="e") for _ in range(2)}) == 1
