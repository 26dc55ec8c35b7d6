"""The coverage of kernels and cases as HTML: a section of the report, and a separate page."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator, Mapping, Sequence

from kcheck.generator import Covered
from kcheck.generator.grid_limits import unreached_limits
from kcheck.model import CodeCoverage, FileCoverage, OpSpec
from kcheck.report import plain, wording
from kcheck.report.html.markup import Markup, document, joined, tag, text
from kcheck.report.reached import is_as_run, ranges, share


def code_section(found: CodeCoverage, root: str, digests: Mapping[str, str]) -> Markup:
    """The source lines of each file, with the number of cases that reached them.

    Args:
        root: the project root, to which paths are relative.
        digests: SHA-256 of the files when they were run; the lines of files that have changed are not shown.
    """
    return joined(*(_file(file, found.cases, root, digests) for file in found.files))


def _file(file: FileCoverage, cases: int, root: str, digests: Mapping[str, str]) -> Markup:
    facts = [f"Cases that reached each line, of {cases:,}."]
    facts += [f"No case reached line {', '.join(ranges(file.missed))} (!)."] if file.missed else []
    one_sided = ", ".join(ranges(file.one_sided))
    facts += [f"Every branch went one way only at line {one_sided} (~)."] if one_sided else []
    if is_as_run(root, file.path, digests):
        content = tag("pre", *_source(file, root), tabindex="0")
    else:
        content = tag("p", "The file has changed since the run.")
    summary = tag("summary", f"Coverage of {file.path}: {share(file)}")
    return tag("details", summary, tag("p", " ".join(facts)), content, class_="coverage")


def _source(file: FileCoverage, root: str) -> Iterator[Markup]:
    """The source from the first to the last line that has code."""
    if not file.lines:
        return
    counts, one_sided = dict(file.lines), set(file.one_sided)
    for line in range(file.lines[0][0], file.lines[-1][0] + 1):
        content = plain.line(linecache.getline(os.path.join(root, file.path), line).rstrip().expandtabs(4))
        cases = counts.get(line)
        sign = " " if cases is None or line not in one_sided else "~"
        sign = "!" if cases == 0 else sign
        row = f"{'' if cases is None else f'{cases:,}':>7} {sign}{line:>5}  {content}"
        yield (
            Markup(f"{text(row)}\n") if sign == " " else tag("mark", row, class_="missed" if sign == "!" else None)
        )


def coverage_page(found: Sequence[tuple[OpSpec, Covered, CodeCoverage | None]]) -> str:
    """A page with the coverage of specs."""
    return document("kcheck: coverage", [tag("h1", "Coverage")], [_spec(*each) for each in found])


def _spec(spec: OpSpec, covered: Covered, code: CodeCoverage | None) -> Markup:
    head = tag("h2", f"{spec.path}: {wording.count(covered.cases, 'case')}")
    if not covered.cases:
        return tag("section", head, tag("p", "None of its cases has run."))
    rows = [
        _row(f.name, len(f.run), len(f.run) + len(f.missing), ", ".join(f.missing), ", ".join(f.never))
        for f in covered.factors
    ]
    missing = "; ".join(f"{one} with {other}" for one, other in covered.missing)
    rows.append(_row("pairs", covered.pairs, covered.possible, missing, ""))
    names = ("property", "run", "not run", "impossible")
    table = tag(
        "table",
        tag("caption", "Properties of the cases"),
        tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names))),
        tag("tbody", *rows),
    )
    limits = tag("ul", *(tag("li", limit) for limit in unreached_limits(spec)))
    counted = code_section(code, spec.root, {}) if code else tag("p", "No run counted the lines of its kernel.")
    return tag("section", head, table, *([limits] if any(unreached_limits(spec)) else []), counted)


def _row(name: str, run: int, every: int, missing: str, never: str) -> Markup:
    count = tag("td", f"{run:,} of {every:,}", class_="number")
    return tag("tr", tag("th", name, scope="row"), count, tag("td", missing), tag("td", never))
