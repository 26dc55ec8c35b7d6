"""Ed25519 keys and signatures, by ``cryptography``, which the extra ``sign`` installs."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcheck.errors import UserError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_INSTALL = "signing needs the package cryptography; run: pip install 'kcheck[sign]'"


def make_keys(private: Path, public: Path) -> None:
    """Write a new pair of keys as PEM; only the owner may read the private one.

    Raises:
        UserError: a file exists or cannot be written; neither is then written.
    """
    _installed()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    for path in (private, public):
        if os.path.lexists(path):
            raise UserError(f"{path} already exists; move it, or name another FILE")
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        with os.fdopen(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text)
        public.write_bytes(_public_text(key.public_key()))
    except OSError as error:
        raise UserError(f"{error.filename}: cannot write the key: {error.strerror}") from None


def sign(key: Path, document: dict[str, Any]) -> str:
    """The envelope of a statement, as JSON.

    Raises:
        UserError: the key cannot be used.
    """
    from kcheck.report.statement import signed

    private = _private(key)
    return json.dumps(signed(document, private.sign, _id(private.public_key())), indent=1) + "\n"


def key_id(key: Path) -> str:
    """SHA-256 of the public key of a private one, as envelopes name it.

    Raises:
        UserError: the key cannot be used.
    """
    return _id(_private(key).public_key())


def pages(statement: dict[str, Any], key_id: str, envelope: str) -> bytes:
    """The PDF of a statement.

    Args:
        key_id, envelope: as for :func:`kcheck.report.pdf.pdf`.

    Raises:
        UserError: reportlab is not installed.
    """
    try:
        from kcheck.report.pdf import pdf
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "reportlab":
            raise
        raise UserError("--pdf needs the package reportlab; run: pip install 'kcheck[pdf]'") from None
    return pdf(statement, key_id=key_id, envelope=envelope)


def verified(envelope: Path, key: Path) -> dict[str, Any]:
    """The statement of an envelope whose signature is valid.

    Raises:
        UserError: a file cannot be read, or is not what it should be.
        BadSignature: no signature in it is by this key.
    """
    _installed()
    from cryptography.exceptions import InvalidSignature

    from kcheck.report.statement import PAYLOAD_TYPE, encoding

    public = _public(key)
    try:
        document = json.loads(_read(envelope))
        kind, payload = document["payloadType"], base64.b64decode(document["payload"], validate=True)
        signatures = [base64.b64decode(each["sig"], validate=True) for each in document["signatures"]]
    except (ValueError, KeyError, TypeError, binascii.Error, RecursionError):
        raise UserError(f"{envelope} is not a signed report; `kcheck report --sign KEY` writes one") from None
    if kind != PAYLOAD_TYPE:
        raise UserError(f"{envelope} is a signed {kind!r}, not a kcheck report ({PAYLOAD_TYPE})")
    for signature in signatures:
        try:
            public.verify(signature, encoding(kind, payload))
        except InvalidSignature:
            continue
        return dict(json.loads(payload))
    raise BadSignature


class BadSignature(Exception):
    """The file was changed after it was signed, or another key signed it."""


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _installed() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise UserError(_INSTALL) from None


def _private(path: Path) -> Ed25519PrivateKey:
    _installed()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key: object = serialization.load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise UserError(f"{path} is not an unencrypted Ed25519 private key in PEM; `kcheck keygen` makes one")
    return key


def _public(path: Path) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key: object = serialization.load_pem_public_key(_read(path))
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise UserError(
            f"{path} is not an Ed25519 public key in PEM; `kcheck keygen` writes one beside the private key"
        )
    return key


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def _public_text(key: Ed25519PublicKey) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _id(key: Ed25519PublicKey) -> str:
    return hashlib.sha256(_public_text(key)).hexdigest()
