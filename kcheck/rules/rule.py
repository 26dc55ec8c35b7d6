"""What a rule is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from kcheck.dataclass import dataclass
from kcheck.rules.language import Language


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. SARIF and HTML reports show title, reason and fix; ``make rules`` writes docs/rules.md from it.

    Attributes:
        title: what it finds, in a few words.
        why: what that is, and why it matters; Markdown.
        fix: how to fix it in general; Markdown.
        level: the severity of its findings, unless the finding, a spec or the command line says otherwise.
        symptom: its findings as a plural noun for counts: ``wrong values in 9 of 11 cases``; otherwise its id.
        fixes: by language, the fix of all its findings there. Other findings have their own fix.
        example, code: a kernel with the error, and what is wrong with it. ``options``: those that the run needs.
        no_example: why there is no example.
    """

    title: str
    why: str
    fix: str = ""
    level: Literal["error", "warn"] = "error"
    symptom: str = ""
    fixes: Mapping[str, str] = field(default_factory=dict)
    example: str = ""
    code: str = ""
    options: tuple[str, ...] = ()
    no_example: str = ""

    @property
    def help(self) -> str:
        """Why it matters and how to fix it; Markdown."""
        return f"{self.why}\n\n{self.fix}" if self.fix else self.why

    def fix_in(self, words: Language, fix: str = "") -> str:
        """The fix of a finding in a language. ``fix``: its own, which counts if the rule has none for all."""
        return self.fixes.get(words.name, fix or self.fixes.get("numba", ""))
