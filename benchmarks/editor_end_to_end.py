"""The extension in a real editor: ``python -m benchmarks.editor_end_to_end CODE_SERVER [--write]``.

code-server, which is VS Code for browsers, with the packaged extension; a headless Chromium opens a spec with a
misspelled key. CODE_SERVER is the folder into which ``make editor-end-to-end`` installs it.
``--write`` writes the results to docs/editor_end_to_end.md.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

from benchmarks.checks import Check, finish

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/editor_end_to_end.md"
SPEC = "op: twice\nkernel: k.py:twice\nrefrence: k.py:twice_of\n"
"""What was checked, what was found, whether that is right."""


def command(server: Path) -> list[str]:
    """The command line of code-server."""
    return ["node", str(server / "node_modules/code-server/out/node/entry.js")]


@contextmanager
def serving(server: Path, folder: Path) -> Iterator[str]:
    """A code-server with the extension and a project; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    project = folder / "project"
    (project / "specs").mkdir(parents=True)
    (project / "kcheck.yaml").write_text("specs: [specs]\n")
    (project / "specs/twice.yaml").write_text(SPEC)
    settings = folder / "user/User/settings.json"
    settings.parent.mkdir(parents=True)
    chosen = {
        "kcheck.path": str(Path(sys.executable).with_name("kcheck")),
        "security.workspace.trust.enabled": False,
        "telemetry.telemetryLevel": "off",
        "workbench.startupEditor": "none",
    }
    settings.write_text(json.dumps(chosen))
    places = ["--extensions-dir", str(folder / "extensions"), "--user-data-dir", str(folder / "user")]
    places += ["--config", str(folder / "config.yaml")]
    vsix = ROOT / "editors/vscode/out/kcheck.vsix"
    subprocess.run([*command(server), *places, "--install-extension", str(vsix)], check=True, capture_output=True)
    address = f"127.0.0.1:{port}"
    started = [*command(server), *places, "--auth", "none", "--bind-addr", address, "--disable-telemetry"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*started, "--disable-update-check", str(project)], stdout=log, stderr=log, env={**os.environ}
        )
    try:
        wait(lambda: urlopen(f"http://{address}/healthz").status == 200, 60)
        file = f"vscode-remote://{address}{project}/specs/twice.yaml"
        payload = quote(json.dumps([["openFile", file]]))
        yield f"http://{address}/?folder={project}&payload={payload}"
    finally:
        process.terminate()
        process.wait(20)


def wait(holds: Callable[[], object], seconds: float) -> bool:
    """Whether something holds within a time; an error on the way means that it does not hold yet."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if holds():
                return True
        except Exception:
            time.sleep(0.1)
        time.sleep(0.3)
    return False


def checks(browser: WebDriver, address: str) -> Iterator[Check]:
    """Open the spec and read its error."""
    browser.get(address)
    ready = wait(lambda: browser.find_elements(By.CSS_SELECTOR, ".monaco-workbench"), 90)
    yield "code-server opens the project", "yes" if ready else "no", ready
    opened = wait(lambda: "refrence" in lines(browser), 60)
    yield "the spec is open", "yes" if opened else "no", opened
    squiggled = wait(lambda: browser.find_elements(By.CSS_SELECTOR, ".squiggly-error"), 60)
    count = len(browser.find_elements(By.CSS_SELECTOR, ".squiggly-error"))
    yield "squiggles of errors, from the language server", str(count), squiggled
    keys(browser, Keys.CONTROL, Keys.SHIFT, "m")
    told = wait(lambda: "did you mean" in problems(browser), 20)
    yield "the problems panel suggests the key", "did you mean 'reference'" if told else problems(browser), told
    bar = browser.find_element(By.CSS_SELECTOR, ".part.statusbar").text
    yield (
        "kcheck in the status bar",
        "yes" if "kcheck" in bar.lower() else bar.replace("\n", " "),
        "kcheck" in bar.lower(),
    )


def problems(browser: WebDriver) -> str:
    """What the panel of problems says, on one line."""
    return " ".join(each.text for each in browser.find_elements(By.CSS_SELECTOR, ".markers-panel")).replace(
        "\n", " "
    )


def lines(browser: WebDriver) -> str:
    """The text in the editor."""
    return " ".join(each.text for each in browser.find_elements(By.CSS_SELECTOR, ".view-lines"))


def keys(browser: WebDriver, *held: str) -> None:
    """Press keys together."""
    *modifiers, last = held
    chain = ActionChains(browser)
    for each in modifiers:
        chain.key_down(each)
    chain.send_keys(last)
    for each in reversed(modifiers):
        chain.key_up(each)
    chain.perform()


def main(arguments: list[str]) -> int:
    """Run the checks, print them, and write the page with ``--write``."""
    server = Path(arguments[0])
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"):
        options.add_argument(argument)
    done = subprocess.run([*command(server), "--version"], capture_output=True, encoding="utf-8", check=True)
    version = done.stdout.split()[0]
    with tempfile.TemporaryDirectory() as folder, serving(server, Path(folder)) as address:
        browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            found = list(checks(browser, address))
            if shot := os.environ.get("SCREENSHOT"):
                browser.save_screenshot(shot)
        finally:
            browser.quit()
    head = f"""# The extension in an editor

Written by `make editor-end-to-end`: code-server {version}, which is VS Code for browsers, with the packaged
extension, in a headless Chromium. Newer code-servers need Node.js 24.
"""
    return finish(head, found, PAGE if "--write" in arguments else None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
