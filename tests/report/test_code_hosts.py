"""The reports for pull requests: Markdown, GitHub's annotations, GitLab's code quality."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import fake_events
import jsonschema
import pytest
from writing import collected, written

from kcheck.model import Event, Fault, Span, SpecRefused
from kcheck.model.baseline import Change, Limit
from kcheck.report.markdown import MARKER, code, escaped, page

STREAMS = sorted(fake_events.STREAMS)
CODE_QUALITY = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": "^(?!\\./|/)"},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
    },
}
"""GitLab's documentation of the format ("Code Quality", "Code Quality report format") as a schema.

GitLab's own (app/validators/json_schemas/codeclimate.json) accepts more: no check_name, any severity, no path.
"""


def many(count: int) -> list[Event]:
    faults = tuple(Fault(Span("specs/a.yaml", n + 1), f"error {n}", "fix it") for n in range(count))
    return [fake_events.started(), SpecRefused("specs/a.yaml", faults, fake_events.START)]


@pytest.mark.parametrize("name", STREAMS)
def test_gitlab_takes_the_report(name: str) -> None:
    """By GitLab's description of the format; GitLab shows one entry of each fingerprint, so all differ."""
    document = json.loads(written("gitlab", fake_events.STREAMS[name]()))
    jsonschema.validate(document, CODE_QUALITY)
    fingerprints = [entry["fingerprint"] for entry in document]
    assert len(set(fingerprints)) == len(fingerprints)


def test_gitlab_shows_the_kernels_line_and_the_fix() -> None:
    """A failing kernel blocks; a warning does not."""
    (entry,) = json.loads(written("gitlab", fake_events.missing_barrier()))
    assert entry["location"] == {"path": "kernels/buggy/matmul.py", "lines": {"begin": 28}}
    assert entry["severity"] == "critical"
    assert "fix: add cuda.syncthreads() between lines 28 and 31" in entry["description"]
    by_rule = {e["check_name"]: e for e in json.loads(written("gitlab", fake_events.everything()))}
    assert by_rule["vacuous"]["severity"] == "minor"


COMMAND = re.compile(r"::(error|warning|notice) ((?:[a-z]+=[^,:\n]*,?)+)::([^\n]*)")


def annotations(events: list[Event], **settings: Any) -> list[tuple[str, dict[str, str], str]]:
    """Parses workflow commands as GitHub's runner does."""
    found = []
    for line in written("github", events, **settings).splitlines():
        match = COMMAND.fullmatch(line)
        assert match is not None, line
        properties = dict(pair.split("=", 1) for pair in match[2].split(","))
        for name, value in properties.items():
            for mark, letter in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
                value = value.replace(mark, letter)
            properties[name] = value
        found.append((match[1], properties, match[3].replace("%0A", "\n").replace("%25", "%")))
    return found


def test_github_annotates_the_line_of_the_kernel() -> None:
    """One error for the bug, with the cases, the fix and the command."""
    ((command, properties, text),) = annotations(fake_events.missing_barrier())
    assert command == "error"
    assert properties == {
        "file": "kernels/buggy/matmul.py",
        "line": "28",
        "title": "kcheck racecheck (matmul)",
    }
    assert text.split("\n")[1:3] == [
        "cases: 9 of 12: every T, K > 0",
        "fix: add cuda.syncthreads() between lines 28 and 31",
    ]


@pytest.mark.parametrize("name", STREAMS)
def test_every_annotation_is_a_workflow_command(name: str) -> None:
    """Names with colons, commas, percent signs and line breaks are escaped: each command is one line."""
    annotations(fake_events.STREAMS[name]())


def test_github_shows_ten_errors_of_a_step_and_the_rest_is_counted() -> None:
    """GitHub drops the eleventh silently; a notice says how many more there are."""
    found = annotations(many(14))
    assert [command for command, _, _ in found] == ["error"] * 10 + ["notice"]
    assert found[-1][2] == "4 more errors; the summary of this job lists all of them"


def test_github_appends_the_page_to_the_summary_of_the_step(tmp_path: Path) -> None:
    """Other tools' summaries in the file stay."""
    file = tmp_path / "summary"
    file.write_text("# before\n")
    annotations(fake_events.missing_barrier(), step_summary=file)
    assert file.read_text().startswith("# before\n<!-- kcheck -->\n## kcheck: 1 of 1 spec failed")


def test_markdown_says_what_failed_and_how_to_replay_it() -> None:
    """The verdict first, a row for each spec that failed, and for each bug a line and folded details."""
    text = written("markdown", fake_events.missing_barrier())
    assert text.startswith(f"{MARKER}\n## kcheck: 1 of 1 spec failed\n\n12 cases: 3 passed, 9 failed · cpu")
    assert "| FAIL | `specs/buggy/matmul.yaml` | 9 of 12 failed | 3.2 s |" in text
    assert "**racecheck** error in `matmul` at `kernels/buggy/matmul.py:28`: thread (1, 0, 0) reads a\\_" in text
    assert text.count("<details>") == text.count("</details>") == 1
    assert "```sh\nkcheck run specs/buggy/matmul.yaml --case-seed 13013218331088976616\n```" in text


def test_markdown_of_a_passing_run_is_one_line() -> None:
    """No tables where nothing failed."""
    assert written("markdown", fake_events.all_passing()).splitlines() == [
        MARKER,
        "## kcheck: 2 specs passed",
        "",
        "4 cases · simulator · 3.4 s",
    ]


def test_markdown_lists_what_got_worse_than_the_baseline() -> None:
    """Only numbers beyond their limits, with both numbers and the place of the kernel."""
    worse = Change("softmax", "registers", "", ("softmax", "sm_80", ""), 24, 40, Limit(more=4), "worse", "k.py:9")
    better = Change("softmax", "spills", "", (), 8, 0, Limit(more=0), "better")
    text = page(collected(fake_events.all_passing()), changes=[worse, better])
    assert "### Worse than the baseline" in text
    assert "| softmax | registers | 24 → 40 (+16, allowed +4) | `k.py:9` |" in text
    assert "spills" not in text


@pytest.mark.parametrize("count", [100, 5_000])
def test_markdown_stays_below_what_a_comment_takes(count: int) -> None:
    """GitHub takes 65,536 characters; what does not fit is counted."""
    text = written("markdown", many(count))
    assert len(text) < 65_000
    listed = text.count("**spec** error")
    left = re.search(r"^([\d,]+) more problems did not fit here\.$", text, re.MULTILINE)
    assert listed + (int(left[1].replace(",", "")) if left else 0) == count


def test_markdown_escapes_what_comes_from_specs_and_kernels() -> None:
    """No HTML, no links, no headings, no escape sequences, and nobody is mentioned."""
    text = written("markdown", fake_events.hostile())
    assert "\x1b" not in text
    assert "\u202e" not in text
    outside = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    assert set(re.findall(r"<[^>]+>", outside)) == {
        MARKER, "<details>", "<summary>", "</summary>", "</details>",
    }  # fmt: skip
    assert escaped("[a](b) @user # <b>|") == "\\[a\\](b) @\u200buser \\# &lt;b&gt;\\|"
    assert code("a`b``c") == "```a`b``c```"
    assert code("`a`") == "`` `a` ``"
