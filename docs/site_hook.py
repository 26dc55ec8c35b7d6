"""A hook of MkDocs: adapts pages that are written for GitHub to Python-Markdown."""

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

TABS = re.compile(r"^<!-- tabs -->\n(.*?)^<!-- end of tabs -->$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"^ *<!--.*?-->$", re.MULTILINE)
ROLE = re.compile(r":(?:func|class|meth|attr|mod|data|exc):(<code>)~?(?:[\w.]*\.)?(\w+</code>)")


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


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """The page without Sphinx's roles, which docstrings have: ``:func:`kcheck.check``` becomes ``check``.

    Raises:
        ValueError: the API reference lacks a public name.
    """
    if page is not None and page.file.src_path == "api.md":
        missing = [name for name in _public() if not re.search(rf'id="kcheck\.(api\.\w+\.)?{name}"', html)]
        if missing:
            raise ValueError(f"docs/api.md lacks {', '.join(missing)}")
    return ROLE.sub(r"\1\2", html)


def _public() -> list[str]:
    """The names of ``kcheck.__all__`` that have docstrings of their own."""
    tree = ast.parse(Path("kcheck/__init__.py").read_text("utf-8"))
    names = next(
        ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__all__"
    )
    return [name for name in names if name not in ("__version__", "hypothesis", "kernels", "monitor")]


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
