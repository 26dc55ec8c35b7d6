"""The JUnit report for Jenkins' xUnit plugin, which refuses a file that its schema does not allow.

Source: ``junit-10.xsd`` of the plugin. It does not allow the file and line of a test case, which GitLab and others
read. They are also in the text of a failure.
"""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from typing import TextIO

from kcheck.model import Event
from kcheck.report import ReportSettings
from kcheck.report.detail import ReadLine, read_line
from kcheck.report.junit import JunitReporter

_NOT_IN_THE_SCHEMA = {
    "testsuites": ("disabled",),
    "testsuite": ("disabled",),
    "testcase": ("timestamp", "file", "line"),
}


class XunitReporter:
    """Writes the JUnit report without what the schema does not have; durations have three decimals."""

    def __init__(self, stream: TextIO, settings: ReportSettings, source: ReadLine = read_line) -> None:
        self._stream = stream
        self._text = io.StringIO()
        self._junit = JunitReporter(self._text, settings, source)

    def handle(self, event: Event) -> None:
        """Takes the next event."""
        self._junit.handle(event)

    def close(self) -> None:
        """Writes the document."""
        self._junit.close()
        root = ET.fromstring(self._text.getvalue().encode("utf-8"))
        for element in root.iter():
            for name in _NOT_IN_THE_SCHEMA.get(element.tag, ()):
                element.attrib.pop(name, None)
            if (time := element.get("time")) is not None:
                element.set("time", f"{float(time):.3f}")
        self._stream.write('<?xml version="1.0" encoding="utf-8"?>\n')
        self._stream.write(ET.tostring(root, encoding="unicode"))
        self._stream.write("\n")
        self._stream.flush()
