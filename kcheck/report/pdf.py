"""A signed report as a PDF for people, with exactly the contents of the statement. Needs ``reportlab``."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from xml.sax.saxutils import escape

from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.platypus import Flowable, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

from kcheck.report import plain, wording

_INK, _GRAY, _RULE = colors.HexColor("#1a1a1a"), colors.HexColor("#5f6368"), colors.HexColor("#d0d4d9")
_COLORS = {
    "passed": colors.HexColor("#176639"),
    "failed": colors.HexColor("#a3161a"),
    "error": colors.HexColor("#a3161a"),
    "incomplete": colors.HexColor("#8a5300"),
}
_BODY = ParagraphStyle("body", fontName="Helvetica", fontSize=8.5, leading=11, textColor=_INK)
_QUIET = ParagraphStyle("quiet", _BODY, textColor=_GRAY)
_TITLE = ParagraphStyle("title", _BODY, fontName="Helvetica-Bold", fontSize=20, leading=25)
_RESULT = ParagraphStyle("result", _BODY, fontName="Helvetica-Bold", fontSize=12, leading=16)
_HEADING = ParagraphStyle("heading", _BODY, fontName="Helvetica-Bold", fontSize=11, leading=14, spaceBefore=12)
_CODE = ParagraphStyle("code", _BODY, fontName="Courier", fontSize=6.8, leading=9)
_MARGIN = 18 * mm
_WIDTH = A4[0] - 2 * _MARGIN


def pdf(statement: Mapping[str, Any], *, key_id: str, envelope: str) -> bytes:
    """The pages of a statement of :func:`kcheck.report.statement.statement`, always the same bytes.

    Args:
        key_id: SHA-256 of the public key.
        envelope: the name of the file with the signature.
    """
    run = statement["predicate"]
    stream = io.BytesIO()
    document = SimpleDocTemplate(
        stream,
        pagesize=A4,
        leftMargin=_MARGIN,
        rightMargin=_MARGIN,
        topMargin=_MARGIN,
        bottomMargin=_MARGIN,
        title="kcheck: signed report",
        author=f"kcheck {run.get('kcheck', '')}".strip(),
        lang="en",
        invariant=1,
    )
    content: list[Flowable] = [
        Paragraph("Signed report of kcheck", _TITLE),
        *_result(run),
        Paragraph("Run", _HEADING),
        _facts(run, key_id),
    ]
    if run["ops"]:
        content += [Paragraph("Ops", _HEADING), *_ops(run["ops"])]
    if run["refused"] or run["notRun"]:
        content += [Paragraph("Specs that did not run", _HEADING), _not_run(run)]
    content += [Paragraph("SHA-256 of the files", _HEADING), _digests(statement["subject"])]
    footer = partial(_footer, f"{envelope} has the signature; check it with: kcheck verify {envelope} --key PUB")
    document.build(content, onFirstPage=footer, onLaterPages=footer)
    return stream.getvalue()


def _said(value: object) -> str:
    """Text without markup, in the characters of the standard fonts; other characters are escaped."""
    line = plain.line(str(value))
    return escape(line.encode("cp1252", "backslashreplace").decode("cp1252"))


def _cell(value: object, style: ParagraphStyle = _BODY) -> Paragraph:
    return Paragraph(_said(value), style)


def _result(run: Mapping[str, Any]) -> list[Flowable]:
    ops = run["ops"]
    passed = sum(each["verdict"] == "passed" for each in ops)
    good = passed == len(ops) and ops and not run["refused"] and not run["interrupted"]
    style = ParagraphStyle("verdict", _RESULT, textColor=_COLORS["passed" if good else "failed"])
    parts = [f"{passed} of {wording.count(len(ops), 'op')} passed"]
    if run["refused"]:
        parts.append(f"{wording.count(len(run['refused']), 'invalid spec')}")
    if run["interrupted"]:
        parts.append("the run was interrupted")
    return [_cell(", ".join(parts), style)]


def _facts(run: Mapping[str, Any], key_id: str) -> Table:
    device = run.get("device", {})
    rows = {
        "started": run.get("started"),
        "command": run.get("command"),
        "device": f"{device['kind']}: {device['name']}" if device else None,
        "kcheck": run.get("kcheck"),
        "versions": ", ".join(f"{name} {version}" for name, version in run.get("versions", {}).items()),
        "profile": run.get("profile"),
        "strict": "yes" if run.get("strict") else None,
        "sanitize": ", ".join(f"{name}={level}" for name, level in run.get("sanitize", {}).items()),
        "key": key_id,
    }
    found = [[_cell(name, _QUIET), _cell(value)] for name, value in rows.items() if value]
    return _table(found, (22 * mm, _WIDTH - 22 * mm))


def _ops(ops: Sequence[Mapping[str, Any]]) -> list[Flowable]:
    """A block for each op: its verdict, its cases and its checks."""
    return [part for op in ops for part in (_op(op), Spacer(0, 4))]


def _op(op: Mapping[str, Any]) -> Table:
    cases = op["cases"]
    total = sum(cases.values())
    counts = [f"{cases['passed']:,} of {wording.count(total, 'case')} passed"]
    counts += [f"{cases[name]:,} {word}" for name, word in _OTHERS.items() if cases[name]]
    rows = {
        "cases": ", ".join(counts),
        "dtypes": _joined(op["dtypes"], " "),
        "shapes": "; ".join(_shape(name, dim) for name, dim in op["dims"].items()),
        "layouts": ", ".join(op["layouts"]),
        "values": ", ".join(op["values"]),
        "sanitizers": ", ".join(
            f"{name} ({each['level']}) {each['cases']:,}" + (" and proved" if each.get("proved") else "")
            for name, each in op["sanitizers"].items()
            if each["cases"] or each.get("proved")
        ),
        "found": ", ".join(op["problems"]),
        "seed": op["seed"],
    }
    style = ParagraphStyle("op", _BODY, fontName="Helvetica-Bold", textColor=_COLORS[op["verdict"]])
    head = [_cell(op["verdict"], style), Paragraph(f"<b>{_said(op['op'])}</b> &nbsp; {_said(op['spec'])}", _BODY)]
    found = [[_cell(name, _QUIET), _cell(value)] for name, value in rows.items() if value]
    return _table([head, *found], (22 * mm, _WIDTH - 22 * mm))


_OTHERS = {"failed": "failed", "errors": "with errors", "notRun": "not run"}


def _shape(name: str, dim: Mapping[str, Any]) -> str:
    """``N from 1 to 600, 40 sizes: 1, 31, 32, 33, prime, unequal``."""
    low, high = dim["min"], dim["max"]
    sizes = f"{name} {low:,}" if low == high else f"{name} from {low:,} to {high:,}, {dim['sizes']:,} sizes"
    return f"{sizes}: {', '.join(dim['classes'])}" if dim["classes"] and low != high else sizes


def _joined(found: Mapping[str, Sequence[str]], between: str) -> str:
    return "; ".join(f"{name}: {between.join(values)}" for name, values in found.items())


def _not_run(run: Mapping[str, Any]) -> Table:
    rows = [[_cell(each["spec"]), _cell(wording.count(each["errors"], "error"))] for each in run["refused"]]
    rows += [[_cell(path), _cell("not begun")] for path in run["notRun"]]
    return _table(rows, (_WIDTH - 40 * mm, 40 * mm))


def _digests(subjects: Sequence[Mapping[str, Any]]) -> Table:
    rows = [[_cell(each["name"]), _cell(each["digest"]["sha256"], _CODE)] for each in subjects]
    return _table(rows or [[_cell("none"), ""]], (_WIDTH - 98 * mm, 98 * mm))


def _table(rows: Sequence[Sequence[Any]], widths: Sequence[float]) -> Table:
    """Rows that may continue on the next page, also within a row."""
    style = [
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ("LEFTPADDING", (0, 0), (0, -1), 0),
        ("TOPPADDING", (0, 0), (-1, -1), 1.5),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 1.5),
        ("LINEABOVE", (0, 0), (-1, 0), 0.6, _RULE),
    ]
    return Table(rows, colWidths=widths, style=TableStyle(style), hAlign="LEFT", splitInRow=1)


def _footer(text: str, canvas: Any, document: Any) -> None:
    canvas.setFont("Helvetica", 7)
    canvas.setFillColor(_GRAY)
    canvas.drawString(_MARGIN, 10 * mm, text.encode("cp1252", "backslashreplace").decode("cp1252"))
    canvas.drawRightString(A4[0] - _MARGIN, 10 * mm, f"page {document.page}")
