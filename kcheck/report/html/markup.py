"""Build HTML from elements. Text and attributes are always escaped, so only :func:`tag` can create a tag."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import TypeAlias

from kcheck.report import plain

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_VOID = ("input", "meta", "br")


class Markup(str):
    """A piece of HTML."""

    __slots__ = ()


Child: TypeAlias = "Markup | str | None"


def text(content: str) -> Markup:
    """Text, without control characters."""
    return Markup(html.escape(plain.line(content), quote=False))


def tag(element: str, /, *children: Child, **attributes: str | bool | None) -> Markup:
    """An element. Plain strings become text.

    Args:
        attributes: ``class_`` becomes ``class``, ``data_op`` becomes ``data-op``; True is an attribute without a
            value; attributes with None or False are omitted.
    """
    found = [
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(plain.line(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    ]
    inner = "".join(child if isinstance(child, Markup) else text(child) for child in children if child is not None)
    return Markup(f"<{element}{''.join(found)}>" + ("" if element in _VOID else f"{inner}</{element}>"))


def joined(*children: Child) -> Markup:
    """Elements one after another."""
    return Markup("".join(child if isinstance(child, Markup) else text(child) for child in children if child))


def embedded(document: object) -> str:
    """JSON for a script element: no tag can start or end in it."""
    dumped = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return dumped.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def asset(name: str) -> str:
    """The text of a style sheet or script that every page contains."""
    return files("kcheck.report.html").joinpath("assets", name).read_text("utf-8")


def document(title: str, header: Sequence[Child], main: Sequence[Child], scripts: Sequence[Child] = ()) -> str:
    """A complete page that loads no other files."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width"),
        tag("title", title),
        tag("style", Markup(asset("uPlot.min.css"))) if scripts else None,
        tag("style", Markup(asset("page.css"))),
    )
    body = tag("body", tag("header", *header), tag("main", *main), *scripts)
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}"
