"""A hook of MkDocs: adapts pages that are written for GitHub to Python-Markdown."""

import re
import textwrap
from typing import Any

TABS = re.compile(r"^<!-- tabs -->\n(.*?)^<!-- end of tabs -->$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"^ *<!--.*?-->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page as Python-Markdown wants it.

    - Sections between ``<!-- tabs -->`` and ``<!-- end of tabs -->`` become tabs.
    - Other comments are removed: a table right below one would be part of it.
    - Text in ``<details>`` is Markdown.
    - What belongs to a numbered item is indented by four spaces; GitHub is content with three.
    """
    tabbed = TABS.sub(lambda found: SECTION.sub(_tab, found[1]), markdown)
    plain = COMMENT.sub("", tabbed).replace("<details>", '<details markdown="1">')
    return "\n".join(_indented(plain.split("\n")))


def _tab(section: re.Match[str]) -> str:
    return f'=== "{section[1]}"\n\n{textwrap.indent(section[2], "    ")}'


def _indented(lines: list[str]) -> list[str]:
    numbered = False
    result = []
    for line in lines:
        if line[:1].strip():
            numbered = re.match(r"\d+\. ", line) is not None
        result.append(f" {line}" if numbered and line[:1] == " " else line)
    return result
