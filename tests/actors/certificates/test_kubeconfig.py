from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest
import yaml

from rewound.actors.certificates.kubeconfig import server_url, write_kubeconfig
from rewound.actors.certificates.pki import Certificates, prepare
from tests.cases import cases


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return prepare(tmp_path_factory.mktemp("data") / "pki", ("localhost",), 1_800_000_000.0)


def test_kubeconfig_contains_address_ca_certificate_and_key(
    certificates: Certificates, tmp_path: Path
) -> None:
    file = tmp_path / "admin.kubeconfig"
    assert write_kubeconfig(file, "https://127.0.0.1:6443", certificates.authority, certificates)
    config = yaml.safe_load(file.read_text())
    cluster = config["clusters"][0]["cluster"]
    user = config["users"][0]["user"]
    assert cluster["server"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == certificates.authority.read_bytes()
    assert base64.b64decode(user["client-certificate-data"]) == certificates.certificate("admin").read_bytes()
    assert base64.b64decode(user["client-key-data"]) == certificates.key("admin").read_bytes()
    assert config["current-context"] == config["contexts"][0]["name"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_kubeconfig_is_written_only_when_its_contents_change(
    certificates: Certificates, tmp_path: Path
) -> None:
    file = tmp_path / "admin.kubeconfig"
    assert write_kubeconfig(file, "https://127.0.0.1:6443", certificates.authority, certificates)
    assert not write_kubeconfig(file, "https://127.0.0.1:6443", certificates.authority, certificates)
    assert write_kubeconfig(file, "https://127.0.0.1:7443", certificates.authority, certificates)
    assert "https://127.0.0.1:7443" in file.read_text()


@cases(
    ("bound", "url"),
    [
        ("127.0.0.1", "https://127.0.0.1:6443"),
        ("10.0.0.7", "https://10.0.0.7:6443"),
        ("0.0.0.0", "https://127.0.0.1:6443"),
        ("::", "https://[::1]:6443"),
        ("::1", "https://[::1]:6443"),
        ("api.example.com", "https://api.example.com:6443"),
    ],
)
def test_url_is_reachable_from_this_machine(bound: str, url: str) -> None:
    assert server_url(bound, 6443) == url
