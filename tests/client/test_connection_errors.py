"""Failed connections: each error says what failed, and what to do."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from rewound.client.errors import ClientError
from rewound.client.kubeconfig import Overrides, load_target
from rewound.client.session import Session
from tests.client import pki
from tests.client.fake_server import fake_server
from tests.client.files import encoded, kubeconfig


def failure(path: Path) -> str:
    with Session(load_target(Overrides(kubeconfig=path), {})) as session:
        with pytest.raises(ClientError) as refused:
            session.get("/api")
        return str(refused.value)


def certificate(one: pki.Certificate) -> dict[str, Any]:
    return {"client-certificate-data": encoded(one.pem), "client-key-data": encoded(one.key)}


def test_client_certificate_that_the_server_refuses(tmp_path: Path) -> None:
    untrusted = pki.issue("alice", pki.issue("another authority", None, is_ca=True))
    expired = pki.issue("alice", pki.authority(), hours=-1)
    with fake_server(version=ssl.TLSVersion.TLSv1_2) as server:
        for one, reason in {expired: "it has expired", untrusted: "the server does not trust its CA"}.items():
            path = kubeconfig(tmp_path / "config", server.url, certificate(one))
            assert failure(path) == (
                f"{server.url} does not accept the client certificate: {reason}; get another, such as by `rewound "
                f"kubeconfig user`, or check client-certificate (context main of {path})"
            )
        assert server.requests == []


def test_certificate_of_the_server_has_expired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pki, "server", lambda: expired)
    expired = pki.issue("server", pki.authority(), hours=-1)
    with fake_server() as server:
        path = kubeconfig(tmp_path / "config", server.url, {})
        assert failure(path) == (
            f"the certificate of {server.url} is not trusted: certificate has expired; check the clock of this "
            f"machine, or renew the certificate: a server with its own CA does so at a start (context main of {path})"
        )


def test_scheme_of_the_other_port(tmp_path: Path) -> None:
    with fake_server(plain=True) as server:
        server.answers["GET /api"] = (400, {"message": "client sent an HTTP request to an HTTPS server"})
        path = kubeconfig(tmp_path / "config", server.url, {})
        assert failure(path).endswith(f"; give its address with https:// (context main of {path})")
        url = server.url.replace("http:", "https:")
        path = kubeconfig(tmp_path / "config", url, {})
        assert failure(path).startswith(f"{url} does not speak TLS; is its address right, or http:// meant")


def test_proxy_that_cannot_be_reached_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_server(plain=True) as proxy:
        pass
    path = kubeconfig(tmp_path / "config", "https://api.test", {}, **{"proxy-url": proxy.url})
    assert failure(path).startswith("cannot reach https://api.test through the proxy of proxy-url: ")
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    path = kubeconfig(tmp_path / "config", "https://api.test", {})
    text = failure(path)
    assert text.startswith("cannot reach https://api.test through the proxy of HTTPS_PROXY: ")
    assert "list the server in NO_PROXY" in text
