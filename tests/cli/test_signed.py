"""Signed reports: made by ``kcheck report --sign``; checked by ``kcheck verify``, openssl and a few lines here."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from pypdf import PdfReader
from small_project import CHECKOUT, Kcheck, write_project


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Kcheck:
    """A project whose last run, with a spec that passes and one that fails, is signed with its HTML report."""
    root = tmp_path_factory.mktemp("signed")
    write_project(root)
    kcheck = Kcheck(root)
    kcheck.environment.pop("KCHECK_STORE", None)
    assert kcheck("run", "specs/good.yaml", "specs/buggy/bad.yaml", "specs/broken/typo.yaml").returncode == 2
    assert kcheck("keygen").stdout == (
        "created kcheck.key, the private key\ncreated kcheck.key.pub, the public key\n"
    )
    result = kcheck("report", "-q", "--format", "html", "-o", "r.html", "--sign", "kcheck.key", "--pdf", "r.pdf")
    assert (result.returncode, result.stderr) == (0, "signed: kcheck.dsse.json\n")
    return kcheck


def opened(folder: Path) -> dict[str, Any]:
    """The statement, its signature checked by DSSE's definition."""
    envelope = json.loads((folder / "kcheck.dsse.json").read_text())
    kind, payload = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"])
    encoding = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload])
    (signature,) = envelope["signatures"]
    key: Any = load_pem_public_key((folder / "kcheck.key.pub").read_bytes())
    key.verify(base64.b64decode(signature["sig"]), encoding)
    with pytest.raises(InvalidSignature):
        key.verify(base64.b64decode(signature["sig"]), encoding + b" ")
    statement: dict[str, Any] = json.loads(payload)
    return statement


def test_the_statement_is_what_the_run_has_shown(signed: Kcheck) -> None:
    """Verdicts, counts, dtypes, sizes, seeds, versions, and digests of the files that were checked."""
    statement = opened(signed.folder)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    predicate = statement["predicate"]
    assert {"numba", "numba-cuda", "numpy"} <= set(predicate["versions"])
    assert predicate["refused"] == [{"spec": "specs/broken/typo.yaml", "errors": 1}]
    bad, good = sorted(predicate["ops"], key=lambda each: each["op"])
    assert (good["op"], good["verdict"], good["cases"]["passed"]) == ("good", "passed", 2)
    assert (bad["op"], bad["verdict"], bad["problems"]) == ("bad", "failed", ["mismatch"])
    sizes = good["dims"]["N"]
    assert 1 <= sizes["min"] < sizes["max"] <= 5
    assert sizes["sizes"] == len(sizes["classes"]) == 2
    digest = hashlib.sha256((signed.folder / "kernels/k.py").read_bytes()).hexdigest()
    assert good["sources"]["kernels/k.py"] == digest
    assert set(good["sources"]) == {"kcheck.yaml", "kernels/k.py", "references/r.py", "specs/good.yaml"}
    subjects = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    assert subjects["r.html"] == hashlib.sha256((signed.folder / "r.html").read_bytes()).hexdigest()
    assert subjects["r.pdf"] == hashlib.sha256((signed.folder / "r.pdf").read_bytes()).hexdigest()
    assert subjects["kernels/k.py"] == digest


def test_the_pdf_shows_what_is_signed(signed: Kcheck) -> None:
    """Verdicts, digests of the checked files and of the HTML report, and the key; not its own digest."""
    statement = opened(signed.folder)
    text = " ".join(" ".join(page.extract_text() for page in PdfReader(signed.folder / "r.pdf").pages).split())
    for each in statement["predicate"]["ops"]:
        assert f"{each['verdict']} {each['op']}" in text
    subjects = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    assert {name for name, digest in subjects.items() if digest not in text} == {"r.pdf"}
    envelope = json.loads((signed.folder / "kcheck.dsse.json").read_text())
    assert envelope["signatures"][0]["keyid"] in text


def test_verify_shows_the_verdicts_and_compares_files(signed: Kcheck) -> None:
    """Reports beside the envelope, and with --root the sources."""
    result = signed("verify", "kcheck.dsse.json", "--key", "kcheck.key.pub", "--root", ".")
    assert result.returncode == 0, result.stdout
    assert "signature valid; run of 20" in result.stdout
    assert "  passed     good  2 of 2 cases passed" in result.stdout
    assert "  failed     bad  0 of 2 cases passed" in result.stdout
    assert "  not run    specs/broken/typo.yaml" in result.stdout
    assert "  as signed          kernels/k.py" in result.stdout
    assert "  as signed          r.html" in result.stdout
    assert "  as signed          r.pdf" in result.stdout


def test_a_change_is_noticed(signed: Kcheck, tmp_path: Path) -> None:
    """Of the payload, of the signature, of a report, of a kernel; another key is, too."""
    envelope = json.loads((signed.folder / "kcheck.dsse.json").read_text())
    payload = base64.b64decode(envelope["payload"]).replace(b'"verdict": "failed"', b'"verdict": "passed"')
    envelope["payload"] = base64.b64encode(payload).decode()
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(envelope))
    result = signed("verify", str(forged), "--key", "kcheck.key.pub")
    assert (result.returncode, result.stdout[:8]) == (1, "INVALID:")
    signed("keygen", str(tmp_path / "other"))
    result = signed("verify", "kcheck.dsse.json", "--key", str(tmp_path / "other.pub"))
    assert (result.returncode, result.stdout[:8]) == (1, "INVALID:")
    shutil.copy(signed.folder / "kcheck.dsse.json", tmp_path)
    (tmp_path / "r.html").write_text("passed")
    result = signed("verify", str(tmp_path / "kcheck.dsse.json"), "--key", "kcheck.key.pub")
    assert (result.returncode, "DIFFERS            r.html" in result.stdout) == (1, True)


@pytest.mark.skipif(not (shutil.which("openssl") and shutil.which("jq")), reason="needs openssl and jq")
def test_openssl_verifies_it_as_the_docs_show(signed: Kcheck) -> None:
    """The block of docs/signed.md, as it is there."""
    page = (CHECKOUT / "docs/signed.md").read_text("utf-8")
    (script,) = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    run = ["sh", "-ec", script]
    done = subprocess.run(run, cwd=signed.folder, capture_output=True, encoding="utf-8")
    assert done.stdout == "Signature Verified Successfully\n", done.stderr


def test_the_private_key_is_for_its_owner_and_is_not_overwritten(signed: Kcheck) -> None:
    """Mode 600; a second keygen refuses."""
    assert stat.S_IMODE((signed.folder / "kcheck.key").stat().st_mode) == 0o600
    result = signed("keygen")
    assert (result.returncode, "kcheck.key already exists" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("report", "--sign", "kcheck.yaml"), "kcheck.yaml is not an unencrypted Ed25519 private key in PEM"),
        (("report", "--sign", "kcheck.key", "--since", "1h"), "--sign signs one run"),
        (("report", "--pdf", "r.pdf"), "--pdf needs --sign KEY"),
        (("report", "--sign", "kcheck.key", "--pdf", "gone/r.pdf"), "--pdf gone/r.pdf: no such folder"),
        (("verify", "kcheck.yaml", "--key", "kcheck.key.pub"), "kcheck.yaml is not a signed report"),
        (("verify", "kcheck.dsse.json", "--key", "kcheck.key"), "kcheck.key is not an Ed25519 public key in PEM"),
        (("verify", "gone.json", "--key", "kcheck.key.pub"), "gone.json: cannot be read"),
    ],
)
def test_what_cannot_be_used_is_an_error(signed: Kcheck, arguments: tuple[str, ...], says: str) -> None:
    """Exit 2, with the fix."""
    result = signed(*arguments)
    assert (result.returncode, says in result.stderr) == (2, True), result.stderr


def test_without_the_extra_the_error_says_what_to_install(signed: Kcheck, tmp_path: Path) -> None:
    """cryptography is not one of kcheck's own dependencies."""
    (tmp_path / "cryptography.py").write_text("raise ImportError\n")
    path = f"{tmp_path}{os.pathsep}{CHECKOUT}"
    result = signed("keygen", "new.key", PYTHONPATH=path)
    assert result.returncode == 2
    assert "signing needs the package cryptography; run: pip install 'kcheck[sign]'" in result.stderr


def test_without_the_extra_for_pdf_nothing_is_signed(signed: Kcheck, tmp_path: Path) -> None:
    """reportlab is an extra of its own: an envelope does not need it."""
    (tmp_path / "reportlab.py").write_text("raise ModuleNotFoundError('no reportlab', name='reportlab')\n")
    path = f"{tmp_path}{os.pathsep}{CHECKOUT}"
    arguments = ("report", "-q", "--sign", "kcheck.key", "--pdf", "x.pdf", "--envelope", "x.json")
    result = signed(*arguments, PYTHONPATH=path)
    assert result.returncode == 2
    assert "--pdf needs the package reportlab; run: pip install 'kcheck[pdf]'" in result.stderr
    assert not any((signed.folder / name).exists() for name in ("x.pdf", "x.json"))
