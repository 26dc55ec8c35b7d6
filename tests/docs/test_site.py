"""The site (`make site`): its navigation, its links, and what its hook changes in pages."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def module() -> Any:
    spec = importlib.util.spec_from_file_location("site_hook", ROOT / SITE["hooks"][0])
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def hook(markdown: str) -> str:
    result = module().on_page_markdown(markdown, page=None)
    assert isinstance(result, str)
    return result


def leaves(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [leaf for each in (entry.values() if isinstance(entry, dict) else entry) for leaf in leaves(each)]


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub and MkDocs spell them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_navigation_has_every_page_once() -> None:
    assert sorted(leaves(SITE["nav"])) == [page.name for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_a_page_and_its_heading(page: Path) -> None:
    """A link out of docs/ would work on GitHub only: such links are absolute."""
    text = CODE.sub("", page.read_text("utf-8"))
    for link in re.findall(r"(?<!!)\[[^\]]*\]\(((?!https?:)[^)]+)\)", text):
        name, _, anchor = link.partition("#")
        target = DOCS / name if name else page
        assert target in PAGES, link
        assert not anchor or anchor in anchors(target), link


PICTURES = [
    (page, link) for page in PAGES for link in re.findall(r"!\[(?:.*?)\]\((.*?)\)", page.read_text("utf-8"))
]


def test_every_picture_is_in_the_checkout_small_and_described() -> None:
    """`make screenshots` makes them. A page loads none from elsewhere; one without a description says nothing to a
    screen reader."""
    assert {link for _, link in PICTURES} == {f"images/{file.name}" for file in (DOCS / "images").iterdir()}
    assert all((DOCS / link).stat().st_size < 100_000 for _, link in PICTURES)
    assert not [page for page in PAGES if "![](" in page.read_text("utf-8")]


def test_the_terminal_of_the_pictures_loads_no_fonts() -> None:
    """An SVG that a page shows may load nothing, and one that is opened by itself loads nothing either."""
    svg = (DOCS / "images/run.svg").read_text("utf-8")
    assert "racecheck" in svg
    assert "url(" not in svg.replace("url(#", "")
    assert not re.findall(r"https?://(?!www\.w3\.org/)", svg)


def test_sections_between_marks_become_tabs() -> None:
    page = "# Title\n\n<!-- tabs -->\n\n## A\n\n```\nx\n```\n\n## B\n\ny\n\n<!-- end of tabs -->\n\n## C\n"
    assert re.sub(r"\n\s*\n", "\n", hook(page)) == (
        '# Title\n=== "A"\n    ```\n    x\n    ```\n=== "B"\n    y\n## C\n'
    )


def test_a_table_right_below_a_comment_is_a_table() -> None:
    """Python-Markdown takes both as one block of HTML; the comment becomes an empty line."""
    assert hook("text\n\n<!-- results -->\n| a |\n|---|\n") == "text\n\n\n| a |\n|---|\n"


def test_text_in_details_is_markdown() -> None:
    assert hook("<details><summary>All</summary>\n") == '<details markdown="1"><summary>All</summary>\n'


def test_roles_of_docstrings_are_names() -> None:
    """MkDocs does not know Sphinx's roles."""
    page = ":class:<code>kcheck.report.ReportSettings</code> and :attr:<code>~Case.id</code>: <code>x</code>"
    assert module().on_page_content(page, None) == (
        "<code>ReportSettings</code> and <code>id</code>: <code>x</code>"
    )


def test_paragraphs_of_a_numbered_item_have_four_spaces() -> None:
    page = "1. one\n   more\n\n   ```\n   code\n   ```\n\n- item\n  more\n"
    assert hook(page) == "1. one\n    more\n\n    ```\n    code\n    ```\n\n- item\n  more\n"
