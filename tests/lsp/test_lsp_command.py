"""``kcheck lsp`` as a command: how it starts and ends."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kcheck.cli.main import main


def test_without_pygls_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pygls", None)
    assert main(["lsp"]) == 2
    assert "pip install 'kcheck[lsp]'" in capsys.readouterr().err


def frame(method: str, number: int | None = None) -> bytes:
    """A message of the protocol, with the length before it."""
    message = {"jsonrpc": "2.0", "method": method} | ({} if number is None else {"id": number})
    if method == "initialize":
        message["params"] = {"capabilities": {}, "processId": None, "rootUri": None}
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize("goodbye", [("shutdown", "exit"), ()], ids=["exit", "end of file"])
def test_the_server_exits_with_0_when_its_editor_is_gone(goodbye: tuple[str, ...]) -> None:
    pytest.importorskip("pygls")
    sent = frame("initialize", 1) + b"".join(frame(name, 2 if name == "shutdown" else None) for name in goodbye)
    ended = subprocess.run([sys.executable, "-m", "kcheck", "lsp"], input=sent, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.startswith(b"Content-Length: ")
    assert b'"completionProvider"' in ended.stdout
