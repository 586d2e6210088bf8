"""A Chromium profile with a client certificate, which it presents to servers on this machine without asking."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

TOOLS = ("certutil", "pk12util")
_PASSWORD = "only for the way into the database"
# What the policy AutoSelectCertificateForUrls sets, here for one profile: any certificate is selected.
_SELECTION = {"https://127.0.0.1:*,*": {"setting": {"filters": [{}]}}}


def missing_tools() -> list[str]:
    return [name for name in TOOLS if shutil.which(name) is None]


def add_client_certificate(home: Path, certificate: bytes, key: bytes) -> None:
    """Create the NSS database in which Chromium looks for certificates of a user, with one of them."""
    database = home / ".pki" / "nssdb"
    database.mkdir(parents=True)
    exported = home / "client.p12"
    exported.write_bytes(_pkcs12(certificate, key))
    name = f"sql:{database}"
    _run("certutil", "-N", "-d", name, "--empty-password")
    _run("pk12util", "-i", str(exported), "-d", name, "-W", _PASSWORD)


def select_certificates(profile: Path) -> None:
    """Otherwise Chromium asks in a window which certificate to send."""
    (profile / "Default").mkdir(parents=True)
    exceptions = {"auto_select_certificate": _SELECTION}
    preferences = {"profile": {"content_settings": {"exceptions": exceptions}}}
    (profile / "Default" / "Preferences").write_text(json.dumps(preferences))


def _pkcs12(certificate: bytes, key: bytes) -> bytes:
    return pkcs12.serialize_key_and_certificates(
        b"client",
        load_pem_private_key(key, None),  # type: ignore[arg-type]
        x509.load_pem_x509_certificate(certificate),
        None,
        BestAvailableEncryption(_PASSWORD.encode()),
    )


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
