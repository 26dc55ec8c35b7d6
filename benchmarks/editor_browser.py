"""VS Code in a browser: a code-server with the extension, and a Chromium that presses keys and reads the page."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

ROOT = Path(__file__).resolve().parents[1]
_SETTINGS = {
    "kcheck.device": "cpu",
    "kcheck.path": str(Path(sys.executable).with_name("kcheck")),
    "security.workspace.trust.enabled": False,
    "telemetry.telemetryLevel": "off",
    "terminal.integrated.gpuAcceleration": "off",  # its text is elements of the page, not a picture
    "workbench.startupEditor": "none",
}


def command(server: Path) -> list[str]:
    """The command line of code-server."""
    return ["node", str(server / "node_modules/code-server/out/node/entry.js")]


def version(server: Path) -> str:
    """The version of code-server."""
    done = subprocess.run([*command(server), "--version"], capture_output=True, encoding="utf-8", check=True)
    return done.stdout.split()[0]


@contextmanager
def serving(server: Path, folder: Path, files: Mapping[str, str], opened: str) -> Iterator[str]:
    """A code-server with the extension and a project of these files; yields the address that opens one of them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    project = folder / "project"
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    for part in ("User", "Machine"):  # programs are settings of a machine, and VS Code drops them from a user's
        settings = folder / "user" / part / "settings.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps(_SETTINGS))
    places = ["--extensions-dir", str(folder / "extensions"), "--user-data-dir", str(folder / "user")]
    places += ["--config", str(folder / "config.yaml")]
    vsix = ROOT / "editors/vscode/out/kcheck.vsix"
    subprocess.run([*command(server), *places, "--install-extension", str(vsix)], check=True, capture_output=True)
    started = [*command(server), *places, "--auth", "none", "--bind-addr", address, "--disable-telemetry"]
    variables = {**os.environ, "KCHECK_DEVICE": "cpu"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*started, "--disable-update-check", str(project)], stdout=log, stderr=log, env=variables
        )
    try:
        if not wait(lambda: urlopen(f"http://{address}/healthz").status == 200, 120):
            raise RuntimeError((folder / "log").read_text("utf-8"))
        payload = quote(json.dumps([["openFile", f"vscode-remote://{address}{project}/{opened}"]]))
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


class Workbench:
    """The window of VS Code, as a person sees and uses it."""

    def __init__(self) -> None:
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,2000"):
            options.add_argument(argument)
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))

    def count(self, selector: str) -> int:
        """How many elements there are."""
        return len(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def text(self, selector: str) -> str:
        """The text of all elements on one line, with ordinary spaces."""
        found = [each.text for each in self.driver.find_elements(By.CSS_SELECTOR, selector)]
        return " ".join(" ".join(found).split())

    def lines(self) -> str:
        """The text in the editor."""
        return self.text(".editor-instance .view-lines")

    def keys(self, *held: str) -> None:
        """Press keys together."""
        *modifiers, last = held
        chain = ActionChains(self.driver)
        for each in modifiers:
            chain.key_down(each)
        chain.send_keys(last)
        for each in reversed(modifiers):
            chain.key_up(each)
        chain.perform()

    def type(self, text: str) -> None:
        """Type text into what has the focus."""
        ActionChains(self.driver).send_keys(text).perform()

    def click(self, selector: str, named: str = "") -> bool:
        """Click the first element with a text; whether there is one."""
        for each in self.driver.find_elements(By.CSS_SELECTOR, selector):
            if named in each.text and each.is_displayed():
                ActionChains(self.driver).move_to_element(each).click().perform()
                return True
        return False

    def run(self, name: str) -> None:
        """Run a command of the palette."""
        self._quick_input(f">{name}", name)

    def open(self, file: str, line: int = 1, column: int = 1) -> bool:
        """Open a file of the project at a place; whether its tab is shown."""
        self._quick_input(file, Path(file).name)
        shown = wait(lambda: Path(file).name in self.text(".tab.active"), 30)
        self._quick_input(f":{line}:{column}", "")
        wait(lambda: f"Ln {line}, Col {column}" in self.text(".part.statusbar"), 20)
        self.point_away()
        return shown

    def point_away(self) -> None:
        """Move the mouse to where it shows no hover."""
        ActionChains(self.driver).move_to_element(
            self.driver.find_element(By.CSS_SELECTOR, ".part.statusbar")
        ).perform()

    def _quick_input(self, text: str, offered: str) -> None:
        self.keys(Keys.ESCAPE)
        self.keys(Keys.CONTROL, "p")
        wait(lambda: self.driver.find_element(By.CSS_SELECTOR, ".quick-input-widget input").is_displayed(), 20)
        self.type(text)
        if offered:
            wait(lambda: offered in self.text(".quick-input-list .monaco-list-row.focused"), 20)
        self.keys(Keys.ENTER)

    def quick_fixes(self) -> str:
        """The menu of code actions at the cursor, which stays open."""
        self.keys(Keys.CONTROL, ".")
        wait(lambda: self.count(".action-widget .monaco-list-row"), 20)
        return self.text(".action-widget .monaco-list-row")

    def choose(self, action: str) -> bool:
        """Choose an entry of that menu."""
        return self.click(".action-widget .monaco-list-row", action)
