"""Makes text safe to print: op names, paths and messages may contain anything.

A message from a kernel or a file name must not move the cursor, change colors, set the window title, or hide part
of a line. Sources: ECMA-48 (control functions), XML 1.0 section 2.2 (Char), Unicode TR 36 (bidi overrides).
"""

from __future__ import annotations

import re

# CSI ... final byte, OSC/DCS/APC/PM/SOS ... string terminator (or BEL), two-byte escapes (ECMA-48, 5.3 to 5.6).
_SEQUENCES = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
    "|(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"
    "|\x1b[ -/]*[0-~]"
)
_SPACES = re.compile("[\t\n\v\f\r\x85\u2028\u2029]+")
# C0 and C1 controls; bidirectional marks, embeddings, overrides and isolates; the byte-order mark.
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_NOT_XML = re.compile("[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def line(text: str) -> str:
    """``text`` as one line without escape sequences and controls.

    A run of line breaks and tabs becomes one space; a lone surrogate becomes U+FFFD.
    """
    return _NOT_XML.sub("\ufffd", _CONTROLS.sub("", _SPACES.sub(" ", _SEQUENCES.sub("", text))))
