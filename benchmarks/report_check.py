"""Checks reports with other people's tools: ``python -m benchmarks.report_check TOOLS [--write]``.

HTML in a headless Chromium (Selenium, axe-core), SARIF with Microsoft's Sarif.Multitool. TOOLS is the folder into
which ``make report-check`` unpacks the two npm packages. ``--write`` writes the results to docs/report_check.md.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from benchmarks.checks import Check, finish

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/report"), str(ROOT / "tests/cli"), str(ROOT / "tests")]

import fake_events  # noqa: E402
from small_project import write_project  # noqa: E402
from writing import written  # noqa: E402

from kcheck.model import Event, RunFinished, Status  # noqa: E402

PAGE = ROOT / "docs/report_check.md"
_MOST_SECONDS, _MOST_BYTES = 2.0, 10_000_000
"""What was checked, what was found, whether that is right."""


def large() -> list[Event]:
    """A run of 10,000 cases, a sixth of which fail."""
    events: list[Event] = [fake_events.started(100)]
    for number in range(100):
        op = f"op{number}"
        events.append(fake_events.spec_started(op, cases=100))
        for n in range(100):
            fails = number % 2 == 0 and n % 3 == 0
            status = Status.FAILED if fails else Status.PASSED
            events.append(fake_events.case(op, n, status, comparisons=(fake_events.mismatch(passed=not fails),)))
        events.append(fake_events.spec_finished(op, passed=66, failed=34))
    return [*events, RunFinished(60.0, False)]


class Browser:
    """A headless Chromium that shows reports from files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,1600"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.version = f"Chromium {self.driver.capabilities['browserVersion']}"

    def open(self, text: str) -> None:
        """Shows a page; requests and messages of earlier pages are forgotten."""
        file = self._folder / "report.html"
        file.write_text(text, "utf-8")
        self.driver.get("about:blank")
        self.driver.get_log("browser"), self.driver.get_log("performance")
        self.driver.get(file.as_uri())

    def look(self, scheme: str, width: int, height: int) -> None:
        """The color scheme of the pages that are opened from now on, and the window in CSS pixels."""
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def requests(self) -> list[str]:
        """What the page asked for since it was opened, the page itself left out."""
        sent = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = [each["params"]["request"]["url"] for each in sent if each["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if not url.endswith("report.html")]

    def shown(self) -> list[Any]:
        """The problems that are visible."""
        return [each for each in self.driver.find_elements(By.TAG_NAME, "article") if each.is_displayed()]


def checks(browser: Browser, tools: Path) -> Iterator[Check]:
    """Every check, one after another."""
    for part in (
        offline, filters, copies, hostile, keyboard, accessible, narrow, charts, coverage, large_run, prints,
    ):  # fmt: skip
        yield from part(browser, tools)
    yield from sarif(tools)


def offline(browser: Browser, tools: Path) -> Iterator[Check]:
    """A page that opens without a network."""
    browser.open(written("html", fake_events.everything()))
    found = browser.requests()
    yield "HTML: requests to any network or file", str(len(found)), not found
    messages = [entry["message"] for entry in browser.driver.get_log("browser")]
    yield "HTML: errors in the console", str(len(messages)), not messages


def filters(browser: Browser, tools: Path) -> Iterator[Check]:
    """Search and the choice of severity."""
    browser.open(written("html", fake_events.everything()))
    every = len(browser.shown())
    browser.driver.find_element(By.ID, "search").send_keys("out of bounds")
    one = len(browser.shown())
    browser.driver.find_element(By.ID, "search").clear()
    browser.driver.find_element(By.ID, "search").send_keys(Keys.SPACE)
    browser.driver.find_element(By.ID, "show").send_keys("warnings")
    warned = [each.get_attribute("data-severity") for each in browser.shown()]
    says = browser.driver.find_element(By.ID, "count").text
    yield "HTML: search shows the matching problem only", f"{one} of {every}", (one, every) == (1, 6)
    yield "HTML: the filter for warnings", says, warned == ["warn"] and says == "1 of 6 problems"


def copies(browser: Browser, tools: Path) -> Iterator[Check]:
    """The copy button."""
    browser.open(written("html", fake_events.missing_barrier()))
    allowed = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    browser.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": allowed})
    browser.driver.find_element(By.CSS_SELECTOR, "button.copy").click()
    script = "const done = arguments[0]; navigator.clipboard.readText().then(done, (e) => done(String(e)));"
    held = browser.driver.execute_async_script(script)
    right = held == "kcheck run specs/buggy/matmul.yaml --case-seed 13013218331088976616"
    yield "HTML: the clipboard after Copy has the replay command", "yes" if right else held, right


def hostile(browser: Browser, tools: Path) -> Iterator[Check]:
    """Names and messages that contain markup."""
    browser.open(written("html", fake_events.hostile()))
    inside = browser.driver.find_elements(By.CSS_SELECTOR, "article b, article img, article script, summary b")
    heading = browser.driver.find_element(By.TAG_NAME, "h3").text
    right = not inside and "[bold]op[/bold]" in heading
    yield "HTML: elements injected by hostile names", str(len(inside)), right


def keyboard(browser: Browser, tools: Path) -> Iterator[Check]:
    """What Tab reaches, and Enter on a summary."""
    browser.open(written("html", fake_events.missing_barrier()))
    reached = []
    for _ in range(8):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        focus = browser.driver.switch_to.active_element
        reached.append(focus.tag_name)
        if focus.tag_name == "summary":
            focus.send_keys(Keys.ENTER)
            break
    opened = browser.driver.find_elements(By.CSS_SELECTOR, "details[open]")
    right = reached[:2] == ["input", "select"] and "button" in reached and len(opened) == 1
    yield "HTML: order of the keyboard focus", " → ".join(reached), right


def accessible(browser: Browser, tools: Path) -> Iterator[Check]:
    """axe-core, with every detail open, in both color schemes."""
    axe = (tools / "axe-core/package/axe.min.js").read_text("utf-8")
    for scheme in ("light", "dark"):
        browser.open(written("html", [*fake_events.everything()]))
        browser.look(scheme, 1200, 1600)
        browser.driver.execute_script(
            "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
        )
        yield from _axe(browser, axe, f"HTML: axe-core, {scheme} colors")
    browser.look("light", 1200, 1600)


def _axe(browser: Browser, axe: str, what: str) -> Iterator[Check]:
    browser.driver.execute_script(axe)
    found = browser.driver.execute_async_script("axe.run().then(arguments[0])")
    by_impact: dict[str, list[str]] = {}
    for each in found["violations"]:
        by_impact.setdefault(each["impact"], []).append(each["id"])
    serious = [*by_impact.get("serious", []), *by_impact.get("critical", [])]
    told = ", ".join(f"{impact}: {' '.join(ids)}" for impact, ids in by_impact.items()) or "none"
    yield f"{what}, {len(found['passes'])} rules; findings", told, not serious


def narrow(browser: Browser, tools: Path) -> Iterator[Check]:
    """A phone: nothing is wider than the window but what scrolls by itself."""
    browser.look("light", 390, 844)
    browser.open(written("html", fake_events.everything()))
    browser.driver.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    width = browser.driver.execute_script("return document.documentElement.scrollWidth")
    browser.look("light", 1200, 1600)
    yield "HTML: width on a phone of 390 pixels, with every detail open", str(width), width <= 390


def charts(browser: Browser, tools: Path) -> Iterator[Check]:
    """The histograms of a run that failed: drawn, and with ink."""
    with tempfile.TemporaryDirectory() as folder:
        page, _ = _failing_run(Path(folder))
    browser.open(page)
    browser.driver.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    script = """
        const drawn = [...document.querySelectorAll("canvas")].filter((canvas) => canvas.width && canvas.height);
        const inked = drawn.filter((canvas) => {
            const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            return data.some((value, place) => place % 4 === 3 && value > 0);
        });
        return [drawn.length, inked.length];
    """
    drawn, inked = browser.driver.execute_script(script)
    told = f"{inked} of {drawn} drawn"
    yield "HTML: charts of errors, of values and of trends", told, drawn >= 2 and inked == drawn


def _failing_run(folder: Path) -> tuple[str, dict[str, str]]:
    """(the HTML report of a run in a small project, what `kcheck coverage` writes of it by format)."""
    write_project(folder)
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    variables.pop("KCHECK_STORE", None)

    def kcheck(*words: str) -> str:
        command = [sys.executable, "-m", "kcheck", *words]
        done = subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, encoding="utf-8", check=False
        )
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stderr)
        return done.stdout

    specs = ("specs/good.yaml", "specs/buggy/bad.yaml")
    page = kcheck("run", *specs, "--device", "cpu", "--coverage", "--format", "html")
    covered = {name: kcheck("coverage", *specs, "--format", name) for name in ("html", "json", "lcov")}
    (folder / "lcov.info").write_text(covered["lcov"])
    genhtml = ["genhtml", "lcov.info", "-o", "lcov", "--branch-coverage"]
    done = subprocess.run(genhtml, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    covered["genhtml"] = done.stdout if done.returncode == 0 else f"failed: {done.stderr}"
    return page, covered


def coverage(browser: Browser, tools: Path) -> Iterator[Check]:
    """What `kcheck coverage` writes."""
    with tempfile.TemporaryDirectory() as folder:
        _, found = _failing_run(Path(folder))
    browser.open(found["html"])
    asked = browser.requests()
    yield "Coverage as HTML: requests to any network or file", str(len(asked)), not asked
    axe = (tools / "axe-core/package/axe.min.js").read_text("utf-8")
    yield from _axe(browser, axe, "Coverage as HTML: axe-core")
    specs = json.loads(found["json"])
    yield "Coverage as JSON: specs", str(len(specs)), len(specs) == 2
    told = re.findall(r"(lines|branches)\.*: ([\d.]+%)", found["genhtml"])
    told_text = ", ".join(f"{what} {share}" for what, share in told) or found["genhtml"][-200:]
    yield "Coverage as lcov: genhtml", told_text, len(told) == 2


def large_run(browser: Browser, tools: Path) -> Iterator[Check]:
    """10,000 cases."""
    text = written("html", large())
    browser.open(text)
    script = "const t = performance.getEntriesByType('navigation')[0]; return t.loadEventEnd;"
    seconds = browser.driver.execute_script(script) / 1000
    yield "HTML: 10,000 cases, size", f"{len(text.encode()) / 1e6:.1f} MB", len(text.encode()) < _MOST_BYTES
    yield (
        "HTML: 10,000 cases, opens in under 2 s",
        "yes" if seconds < _MOST_SECONDS else "no",
        seconds < _MOST_SECONDS,
    )


def prints(browser: Browser, tools: Path) -> Iterator[Check]:
    """A page on paper."""
    browser.open(written("html", fake_events.missing_barrier()))
    made = browser.driver.execute_cdp_cmd("Page.printToPDF", {})
    is_pdf = base64.b64decode(made["data"]).startswith(b"%PDF-")
    opened = browser.driver.find_elements(By.CSS_SELECTOR, "article details:not([open])")
    yield "HTML: prints with its details open", "yes" if is_pdf and not opened else "no", is_pdf and not opened


def sarif(tools: Path) -> Iterator[Check]:
    """SARIF by Microsoft's validator, with its rules for GitHub Advanced Security."""
    program = tools / "sarif-multitool/package/Sarif.Multitool"
    program.chmod(0o755)
    for name in ("everything", "missing_barrier", "hostile"):
        with tempfile.TemporaryDirectory() as folder:
            report, result = Path(folder, "r.sarif"), Path(folder, "v.sarif")
            report.write_text(written("sarif", fake_events.STREAMS[name]()), "utf-8")
            subprocess.run(
                [str(program), "validate", str(report), "--rule-kind", "Sarif;Ghas", "-o", str(result)],
                check=False,
                capture_output=True,
            )
            found = json.loads(result.read_text("utf-8-sig"))["runs"][0]["results"]
        told = ", ".join(sorted({each["ruleId"] for each in found})) or "none"
        errors = [each for each in found if each.get("level") == "error"]
        yield f"SARIF: Sarif.Multitool, the run '{name}'; findings", told, not errors


def main(arguments: list[str]) -> int:
    """Run the checks, print them, and write the page with ``--write``."""
    tools = Path(arguments[0])
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder))
        try:
            found = list(checks(browser, tools))
        finally:
            browser.driver.quit()
    head = f"""# Reports checked with independent tools

Written by `make report-check`: HTML reports in {browser.version}, driven by Selenium, with axe-core; SARIF
reports with Microsoft's Sarif.Multitool and its rules for GitHub, lcov files with genhtml. SARIF2005 requires a
home page, which kcheck does not have yet.
"""
    return finish(head, found, PAGE if "--write" in arguments else None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
