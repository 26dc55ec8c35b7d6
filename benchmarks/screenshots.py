"""Pictures of the reports, for the README and the site: ``python -m benchmarks.screenshots``.

Runs a kernel with a race. The terminal is an SVG by Rich, of 80 columns; the HTML report is shown by a headless
Chromium, on a desktop in light and in dark colors, and on a phone. A kernel that is wrong at the edges shows the
error map and the histograms. Writes docs/images. With ``--png FOLDER`` the pages go there as PNG, whole.
"""

from __future__ import annotations

import base64
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs/images"
COMMAND = "run specs/relu.yaml specs/buggy/matmul_missing_barrier.yaml --cases 20"
FIGURES = "run specs/buggy/stencil_first_row.yaml --case-seed 13155781971985213822"
"""A case of 31 x 32 elements: the report has their map, their errors, and the values of the input."""
COLUMNS = 80
THEME = TerminalTheme(
    (30, 34, 42),
    (220, 223, 228),
    [(30, 34, 42), (240, 113, 120), (152, 195, 121), (229, 192, 123),
     (97, 175, 239), (198, 146, 233), (86, 182, 194), (220, 223, 228)],
)  # fmt: skip
"""Colors with a contrast of at least 4.5 to 1."""
PAGES = (
    ("report-light", "light", 1200, 1000),
    ("report-dark", "dark", 1200, 1000),
    ("report-phone", "light", 390, 844),
)
"""Name, color scheme, and size in CSS pixels."""


def run(*arguments: str, folder: Path = ROOT, store: bool = False) -> str:
    """What kcheck prints, in color."""
    variables = {**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "PYTHONPATH": str(ROOT)}
    variables.pop("NO_COLOR", None)
    variables["KCHECK_STORE"] = "on" if store else "off"
    words = [sys.executable, "-m", "kcheck", *arguments]
    done = subprocess.run(words, cwd=folder, env=variables, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 1:
        raise SystemExit(f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def terminal(command: str, output: str) -> str:
    """An SVG of a terminal. It loads no fonts: those of the reader's system show it."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text.assemble(("$ ", "dim"), command))
    console.print(Text.from_ansi(output.rstrip("\n")))
    svg = console.export_svg(title="kcheck", theme=THEME, unique_id="kcheck")
    svg = re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code", "Fira Code, Menlo, Consolas, DejaVu Sans Mono")


def pages(report: Path, png: Path | None) -> None:
    """The report as pictures."""
    from benchmarks.report_check import Browser

    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder))
        try:
            for name, scheme, width, height in PAGES:
                browser.look(scheme, width, height)
                browser.open(report.read_text("utf-8"))
                took = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": 75})
                (IMAGES / f"{name}.webp").write_bytes(base64.b64decode(took["data"]))
                if png is not None:
                    whole = {"format": "png", "captureBeyondViewport": True}
                    took = browser.driver.execute_cdp_cmd("Page.captureScreenshot", whole)
                    (png / f"{name}.png").write_bytes(base64.b64decode(took["data"]))
        finally:
            browser.driver.quit()


def figures(png: Path | None) -> None:
    """The values of a case, from a copy of the project, whose store has no other run."""
    from selenium.webdriver.common.by import By

    from benchmarks.report_check import Browser

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("specs", "kernels", "references"):
            shutil.copytree(ROOT / part, folder / part)
        (folder / "kcheck.yaml").touch()
        run(*FIGURES.split(), "--format", "html", "-o", "report.html", folder=folder, store=True)
        browser = Browser(folder)
        try:
            browser.look("light", 1200, 1000)
            browser.open((folder / "report.html").read_text("utf-8"))
            values = browser.driver.find_element(By.CSS_SELECTOR, "article details")
            browser.driver.execute_script("arguments[0].open = true", values)
            time.sleep(1)  # the charts are drawn when they are first shown
            place = browser.driver.execute_script(
                "const r = arguments[0].getBoundingClientRect(); return [r.x, r.y + scrollY, r.width, r.height]",
                values,
            )
            clip = {**dict(zip(("x", "y", "width", "height"), place, strict=True)), "scale": 1}
            for kind, target in (("webp", IMAGES), ("png", png)):
                if target is not None:
                    how = {"format": kind, "captureBeyondViewport": True, "clip": clip}
                    how |= {"quality": 75} if kind == "webp" else {}
                    took = browser.driver.execute_cdp_cmd("Page.captureScreenshot", how)
                    (target / f"report-figures.{kind}").write_bytes(base64.b64decode(took["data"]))
        finally:
            browser.driver.quit()


def main(arguments: list[str]) -> None:
    """Write the pictures."""
    IMAGES.mkdir(exist_ok=True)
    png = Path(arguments[1]) if arguments[:1] == ["--png"] else None
    report = Path("build/report.html")
    (ROOT / report).parent.mkdir(exist_ok=True)
    output = run(*COMMAND.split(), "--format", "text", "--format", "html", "-o", str(report))
    (IMAGES / "run.svg").write_text(terminal(f"kcheck {COMMAND}", output), "utf-8")
    pages(ROOT / report, png)
    figures(png)


if __name__ == "__main__":
    main(sys.argv[1:])
