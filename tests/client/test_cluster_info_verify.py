"""`rewound cluster-info verify`: the detached signature of cluster-info, and that only HS256 is accepted."""

from __future__ import annotations

import base64
import json
import warnings
from pathlib import Path
from typing import Any

import jwt
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.client import pki
from tests.client.command import Run
from tests.client.fake_server import FakeServer, fake_server
from tests.client.files import encoded

ID, SECRET = "abcdef", "0123456789abcdef"
TOKEN = f"{ID}.{SECRET}"


def content(server: str = "https://127.0.0.1:6443", authority: str = "") -> str:
    cluster = {"server": server, "certificate-authority-data": encoded(authority or pki.authority().pem)}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}]}
    )


def signature(text: str, algorithm: str = "HS256", key: Any = TOKEN, **header: Any) -> str:
    """By another library than ours."""
    options = jwt.PyJWS(algorithms=[algorithm])
    with warnings.catch_warnings():
        # Bootstrap tokens are shorter than that library advises.
        warnings.simplefilter("ignore")
        whole = options.encode(text.encode(), key, algorithm, headers={"kid": ID, "typ": None, **header})
    before, _, after = whole.split(".")
    return f"{before}..{after}"


def config_map(text: str, signed: str) -> dict[str, Any]:
    return {"data": {"kubeconfig": text, f"jws-kubeconfig-{ID}": signed}}


def verify(rewound: Run, folder: Path, text: str, signed: str, token: str = TOKEN, *more: str) -> Any:
    (folder / "info.json").write_text(json.dumps(config_map(text, signed)))
    return rewound("cluster-info", "verify", "--file", "info.json", "--bootstrap-token", token, *more)


def test_signed_file_is_verified_and_written(rewound: Run, tmp_path: Path) -> None:
    ended = verify(rewound, tmp_path, content(), signature(content()), TOKEN, "--output", "out")
    assert (ended.code, ended.err) == (0, "wrote out\n")
    assert ended.out.startswith(
        f"verified: signed with the token {ID}\nserver:   https://127.0.0.1:6443\nCA:       sha256:"
    )
    assert SECRET not in ended.out
    assert (tmp_path / "out").read_text() == content()


def rsa_key() -> Any:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.mark.parametrize("algorithm", ["none", "HS384", "HS512", "RS256"])
def test_every_other_algorithm_is_refused(rewound: Run, tmp_path: Path, algorithm: str) -> None:
    key = {"none": None, "RS256": algorithm == "RS256" and rsa_key()}.get(algorithm, TOKEN)
    ended = verify(
        rewound, tmp_path, content(), signature(content(), algorithm, key), TOKEN, "--output", "out"
    )
    assert (ended.code, ended.out) == (1, "")
    assert f"has the algorithm '{algorithm}', only HS256 is accepted" in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("algorithm", ["none", "hs256", "", None])
def test_header_with_another_algorithm_over_a_valid_hs256_is_refused(
    rewound: Run, tmp_path: Path, algorithm: str | None
) -> None:
    _, _, after = signature(content()).split(".")
    header = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": ID}).encode()).decode().rstrip("=")
    ended = verify(rewound, tmp_path, content(), f"{header}..{after}")
    assert ended.code == 1 and "only HS256 is accepted" in ended.err


@pytest.mark.parametrize(
    ("signed", "text"),
    [
        (signature(content() + "x"), "the signature does not fit"),
        (signature(content(), key="abcdef.0123456789abcdeg"), "the signature does not fit"),
        (signature(content(), key=ID), "the signature does not fit"),
        (signature(content(), kid="ghijkl"), "is not one of the token abcdef"),
        (signature(content(), crit=["x"], x=1), "is not one of the token abcdef"),
        (signature(content()) + ".", "is not a detached JWS"),
        (signature(content()).replace("..", ".eA."), "is not a detached JWS"),
        ("x", "is not a detached JWS"),
        ("", "is not a detached JWS"),
        ("!..x", "is not a detached JWS"),
    ],
    ids=range(10),
)
def test_wrong_signature_is_refused(rewound: Run, tmp_path: Path, signed: str, text: str) -> None:
    ended = verify(rewound, tmp_path, content(), signed)
    assert (ended.code, ended.out) == (1, "")
    assert text in ended.err and SECRET not in ended.err


def test_signature_with_the_secret_alone_is_accepted(rewound: Run, tmp_path: Path) -> None:
    """As a server with the rule cluster-info-key=secret signs."""
    assert verify(rewound, tmp_path, content(), signature(content(), key=SECRET)).code == 0


def test_payload_is_encoded_without_padding(rewound: Run, tmp_path: Path) -> None:
    for padding in range(3):
        text = content() + "#" * padding
        assert verify(rewound, tmp_path, text, signature(text)).code == 0


@pytest.mark.parametrize("token", ["abcdef", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcdef0"])
def test_wrong_token_is_refused_without_showing_it(rewound: Run, tmp_path: Path, token: str) -> None:
    ended = verify(rewound, tmp_path, content(), signature(content()), token)
    assert ended.code == 2 and token not in ended.err
    assert "rewound: --bootstrap-token: does not have the form <id>.<secret>" in ended.err


def test_unknown_token_is_refused(rewound: Run, tmp_path: Path) -> None:
    ended = verify(rewound, tmp_path, content(), signature(content()), f"ghijkl.{SECRET}")
    assert ended.code == 1 and "has no signature of the token ghijkl" in ended.err


def show(server: FakeServer, namespace: str, text: str) -> None:
    answer = (200, config_map(text, signature(text, key=SECRET if namespace == "kube-public" else TOKEN)))
    server.answers[f"GET /api/v1/namespaces/{namespace}/configmaps/cluster-info"] = answer


@pytest.mark.parametrize("namespace", ["cluster-public", "kube-public"])
def test_server_is_asked_anonymously_and_then_verified(rewound: Run, tmp_path: Path, namespace: str) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with fake_server() as server:
        missing = (404, {"message": "not found"})
        server.answers["GET /api/v1/namespaces/cluster-public/configmaps/cluster-info"] = missing
        show(server, namespace, content(server.url))
        ended = rewound("cluster-info", "verify", "--server", server.url, "--bootstrap-token-file", "token")
        assert (ended.code, ended.err) == (0, "")
        assert set(server.tokens()) == {None}
        assert {one.common_name for one in server.requests} == {""}


def test_server_with_a_certificate_of_another_ca_is_refused(rewound: Run) -> None:
    other = pki.issue("other", None, is_ca=True)
    with fake_server() as server:
        show(server, "cluster-public", content(server.url, other.pem))
        ended = rewound("cluster-info", "verify", "--server", server.url, "--bootstrap-token", TOKEN)
        assert (ended.code, ended.out) == (1, "")
        assert "is not trusted" in ended.err


def test_cluster_info_that_anonymous_may_not_read_is_reported(rewound: Run) -> None:
    with fake_server() as server:
        for namespace in ("cluster-public", "kube-public"):
            path = f"GET /api/v1/namespaces/{namespace}/configmaps/cluster-info"
            server.answers[path] = (403, {"message": "forbidden"})
        ended = rewound("cluster-info", "verify", "--server", server.url, "--bootstrap-token", TOKEN)
        assert ended.code == 1 and "does not show cluster-info to anonymous callers: forbidden" in ended.err
        # Those who may read it and find nothing must create it.
        server.answers[path] = (404, {"message": "not found"})
        ended = rewound("cluster-info", "verify", "--server", server.url, "--bootstrap-token", TOKEN)
        assert ended.code == 1 and "to anonymous callers: not found; create the ConfigMap" in ended.err
