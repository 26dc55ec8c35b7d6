"""The page: first the failures, then every spec with its cases, then the trend."""

from __future__ import annotations

import json
import linecache
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcheck.model import CaseFinished, Comparison, SpecFinished
from kcheck.model.paths import names_op
from kcheck.report import TrendPoint, plain, wording
from kcheck.report.collect import Collected, OpenSpec
from kcheck.report.coverage import proved_text
from kcheck.report.detail import ReadLine
from kcheck.report.html import figures
from kcheck.report.html.coverage import code_section
from kcheck.report.html.markup import Markup, asset, document, embedded, joined, tag, text
from kcheck.report.problems import Problem, problems
from kcheck.report.totals import SpecLine, Totals, spec_counts
from kcheck.rules import rule

_AROUND = 3  # lines of source before and after a marked line
_MOST_WORST = 5
Inputs = Mapping[str, Mapping[str, figures.Histogram]]


def page(run: Collected, inputs: Inputs, trend: Sequence[TrendPoint], source: ReadLine) -> str:
    """The whole document.

    Args:
        inputs: histograms of the inputs of failing cases, by op, seed and label.
        trend: the stored runs up to this one, the oldest first.
        source: reads the line of a file that a finding points to.
    """
    totals = Totals(run.run, run.finished)
    for refused in run.refused:
        totals.refused(refused)
    lines = [totals.finish(done, *spec_counts(opened, done), opened) for opened, done in run.specs]
    title, *rest = totals.parts()
    found = problems(run, source)
    errors = {opened.started.path: figures.of_errors(opened.cases) for opened, _ in run.specs}
    cases = [[_row(event) for event in opened.cases] for opened, _ in run.specs]
    header = [tag("h1", f"kcheck: {title}"), *_about(run, rest)]
    main = [
        _controls(),
        tag("h2", "Problems") if found else tag("p", "No problems were found."),
        *(_problem(problem, inputs, errors) for problem in found),
        tag("h2", "Specs"),
        *(
            _spec(number, opened, done, line)
            for number, ((opened, done), line) in enumerate(zip(run.specs, lines, strict=True))
        ),
        *_notes(run.specs),
        *_trend(trend),
    ]
    scripts = [
        tag("script", Markup(embedded(cases)), type="application/json", id="cases"),
        tag("script", Markup(asset("uPlot.iife.min.js"))),
        tag("script", Markup(asset("page.js"))),
    ]
    return document(f"kcheck: {title}", header, main, scripts)


def _about(run: Collected, rest: Sequence[str]) -> Iterator[Markup]:
    yield tag("p", " · ".join(rest))
    if run.run is not None:
        started = run.run.started.strftime("%Y-%m-%d %H:%M %Z")
        yield tag("p", f"kcheck {run.run.version} · {run.run.device_name} · {started}", class_="soft")
        yield tag("p", tag("code", run.run.command), class_="soft")


def _controls() -> Markup:
    options = [("all", "everything"), ("error", "errors"), ("warn", "warnings")]
    return tag(
        "form",
        tag("div", tag("label", "Search", for_="search"), tag("input", type="search", id="search")),
        tag(
            "div",
            tag("label", "Show", for_="show"),
            tag("select", *(tag("option", label, value=value) for value, label in options), id="show"),
        ),
        tag("p", "", id="count", role="status"),
        role="search",
    )


def _problem(problem: Problem, inputs: Inputs, errors: Mapping[str, figures.Histogram | None]) -> Markup:
    is_error = problem.severity == "error"
    kind = "error" if is_error else "warning"
    help_ = [tag("p", *_with_code(part)) for part in rule(problem.rule).help.split("\n\n")]
    facts = [
        ("fix", problem.fix),
        ("place", f"{problem.place.file}:{problem.place.line}"),
        *_who(problem),
        ("cases", problem.cases),
        ("also", ", ".join(problem.also)),
        ("smallest", problem.smallest),
    ]
    told = [joined(tag("dt", label), tag("dd", value)) for label, value in facts if value]
    return tag(
        "article",
        tag(
            "h3",
            tag("span", f"{kind}: {problem.rule}", class_="error" if is_error else "warn"),
            f" · {problem.op or problem.spec}",
        ),
        tag("p", problem.message),
        tag("dl", *told),
        *_sources(problem),
        _replay(problem.replay) if problem.replay else None,
        *_evidence(problem, inputs, errors),
        tag("details", tag("summary", "About this rule"), *help_),
        class_=None if is_error else "warning",
        data_severity=problem.severity,
    )


def _with_code(markdown: str) -> Iterator[Markup]:
    """Convert text in which backticks mark code."""
    for number, part in enumerate(markdown.split("`")):
        yield tag("code", part) if number % 2 else text(part)


def _who(problem: Problem) -> Iterator[tuple[str, str]]:
    finding = problem.finding
    if finding is None or finding.thread is None:
        return
    if finding.unit == "program":
        yield "program", str(finding.block)
        if finding.other is not None and finding.other[0] != finding.block:
            yield "other program", str(finding.other[0])
        return
    yield "thread", f"{finding.thread} of block {finding.block}"
    if finding.other is not None:
        yield "other thread", f"{finding.other[1]} of block {finding.other[0]}"


def _sources(problem: Problem) -> Iterator[Markup]:
    """The source around the line of a problem, and around the other line of a race, marked."""
    marked = [place for place in (problem.place, problem.other) if place is not None]
    by_file: dict[str, set[int]] = {}
    for place in marked:
        by_file.setdefault(place.file, set()).add(place.line)
    for file, lines in by_file.items():
        wanted = sorted({n for line in lines for n in range(max(1, line - _AROUND), line + _AROUND + 1)})
        shown = [(n, content) for n in wanted if (content := linecache.getline(file, n))]
        if not any(n in lines for n, _ in shown):
            continue
        rows: list[Markup] = []
        for position, (n, content) in enumerate(shown):
            if position and n > shown[position - 1][0] + 1:
                rows.append(Markup("…\n"))
            line = f"{n:>5}  {plain.line(content.rstrip().expandtabs(4))}"
            rows.append(tag("mark", line) if n in lines else Markup(f"{text(line)}\n"))
        yield tag("figure", tag("figcaption", file), tag("pre", *rows, tabindex="0"))


def _replay(command: str) -> Markup:
    return tag(
        "div",
        tag("code", command),
        tag("button", "Copy", type="button", class_="copy", aria_label="Copy the replay command"),
        class_="replay",
    )


def _evidence(problem: Problem, inputs: Inputs, errors: Mapping[str, Any]) -> Iterator[Markup]:
    event = problem.simplest
    if event is None:
        return
    case = event.verdict.case
    differing = [comparison for comparison in event.verdict.comparisons if not comparison.passed]
    maps = [figures.error_map(comparison) for comparison in differing]
    charts = list(inputs.get(f"{case.op} {case.seed} {case.label}", {}).values())
    charts += [chart for comparison in differing if (chart := figures.of_elements(comparison)) is not None]
    if differing and (histogram := errors.get(event.path)) is not None:
        charts.append(histogram)
    parts = [*(_worst(comparison) for comparison in differing), *maps, _charts(charts)]
    if any(parts):
        yield tag("details", tag("summary", "Values of the smallest case"), *parts)


def _worst(comparison: Comparison) -> Markup | None:
    found = comparison.error_map
    if found is None:
        return None
    head = ("element", "actual", "expected", "error", "allowed")
    rows = [
        (
            wording.element(comparison.output, each.index),
            wording.value(each.actual, comparison.dtype),
            wording.value(each.expected, comparison.dtype),
            "-" if each.error is None else wording.measure(each.error),
            wording.measure(each.allowed),
        )
        for each in found.worst[:_MOST_WORST]
    ]
    return tag(
        "table",
        tag("caption", f"The worst elements of {comparison.output}"),
        tag("thead", tag("tr", *(tag("th", name, scope="col") for name in head))),
        tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows)),
    )


def _charts(found: Sequence[figures.Histogram]) -> Markup | None:
    drawn = [
        tag("div", class_="chart", role="img", aria_label=_in_words(chart), data_chart=json.dumps(chart))
        for chart in found
        if chart["x"]
    ]
    return tag("div", *drawn, class_="charts") if drawn else None


def _in_words(chart: figures.Histogram) -> str:
    """The description of a chart for screen readers."""
    x, y = chart["x"], chart["y"]
    span = f"{chart['label']} from {x[0]:.4g} to {x[-1]:.4g}, most often near {x[y.index(max(y))]:.4g}"
    return f"{chart['title']}. {span}"


def _spec(number: int, opened: OpenSpec, done: SpecFinished, line: SpecLine) -> Markup:
    started = opened.started
    kind = {"ok": "passed", "warn": "warn", "stop": "warn"}.get(line.mark, "error")
    op = "" if names_op(started.path, started.op) else f" · {started.op}"
    heads = [tag("th", name, scope="col") for name in ("case", "result")]
    heads += [tag("th", name, scope="col", class_="number") for name in ("error / allowed", "seconds")]
    return tag(
        "details",
        tag("summary", tag("span", line.mark, class_=kind), f" {started.path}{op}: {line.result}"),
        tag("p", started.description) if started.description else None,
        tag("p", proved) if (proved := proved_text(done)) else None,
        code_section(done.coverage, started.root, started.sources) if done.coverage is not None else None,
        tag("table", tag("caption", "Cases"), tag("thead", tag("tr", *heads)), tag("tbody")),
        class_="spec",
        data_spec=str(number),
    )


def _row(event: CaseFinished) -> list[str]:
    verdict = event.verdict
    ratios = [each.ratio for each in verdict.comparisons if each.ratio is not None]
    return [
        plain.line(verdict.case.id),
        verdict.status.value,
        plain.line(verdict.rule),
        wording.measure(max(ratios)) if ratios else "-",
        f"{verdict.seconds:.3f}",
    ]


def _notes(specs: Sequence[tuple[OpenSpec, SpecFinished]]) -> Iterator[Markup]:
    notes = dict.fromkeys(note for opened, finished in specs for note in (*opened.notes, *finished.notes))
    if notes:
        yield tag("h2", "Notes")
        yield tag("ul", *(tag("li", note) for note in notes))


def _trend(trend: Sequence[TrendPoint]) -> Iterator[Markup]:
    if len(trend) < 2:
        return
    yield tag("h2", "Stored runs")
    chart = _charts([figures.of_trend(trend)])
    if chart is not None:
        yield chart
    heads = [tag("th", name, scope="col") for name in ("started", "passed", "failed")]
    rows = [
        tag("tr", tag("td", wording.moment(at)), tag("td", f"{passed:,}"), tag("td", f"{failed:,}"))
        for at, passed, failed in trend
    ]
    caption, head = tag("caption", "Cases of the stored runs"), tag("thead", tag("tr", *heads))
    yield tag("details", tag("summary", "Numbers"), tag("table", caption, head, tag("tbody", *rows)))
