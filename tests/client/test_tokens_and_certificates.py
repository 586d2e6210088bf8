"""`rewound token`, `rewound certificate` and `rewound kubeconfig` against a server that records requests."""

from __future__ import annotations

import base64
import io
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rewound.actors.access.bootstrap_token import token_of
from rewound.actors.names import NAMES
from tests.client import pki
from tests.client.command import Run, served
from tests.client.fake_server import FakeServer
from tests.client.files import encoded, kubeconfig
from tests.gateway.https import certificates

TOKENS = "POST /api/v1/namespaces/{}/serviceaccounts/{}/token"
REQUESTS = "/apis/certificates.cluster.io/v1/certificatesigningrequests"


def issue(server: FakeServer, account: str, namespace: str = "team") -> None:
    server.answers[TOKENS.format(namespace, account)] = (201, {"status": {"token": "issued"}})


# rewound token.


def test_token_prints_the_token_only(rewound: Run, server: FakeServer) -> None:
    issue(server, "builder")
    ended = rewound("token", "builder")
    assert (ended.code, ended.out, ended.err) == (0, "issued\n", "")
    assert server.requests[-1].document == {
        "apiVersion": "authentication.cluster.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": []},
    }


def test_token_with_every_flag(rewound: Run, server: FakeServer) -> None:
    issue(server, "bootstrap", "other")
    bound = "--bound-object-kind Pod --bound-object-name p --bound-object-uid u"
    flags = f"--audience a --audience b --duration 1h30m {bound}"
    assert rewound("token", "other/bootstrap", *flags.split()).out == "issued\n"
    assert server.requests[-1].document["spec"] == {
        "audiences": ["a", "b"],
        "expirationSeconds": 5400,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"},
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("a/b/c",),
        ("/b",),
        ("b", "--bound-object-kind", "Pod"),
        ("b", "--bound-object-uid", "u"),
        ("b", "--duration", "x"),
    ],
)
def test_wrong_token_arguments(rewound: Run, server: FakeServer, arguments: tuple[str, ...]) -> None:
    ended = rewound("token", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert server.requests == []


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
def test_bootstrap_token_is_one_that_the_server_accepts(rewound: Run, tmp_path: Path, dialect: str) -> None:
    names = NAMES[dialect]
    for server in served(tmp_path / "mine", dialect):
        flags = "--description x --group system:bootstrappers:a --group system:bootstrappers:b --duration 1h"
        ended = rewound("token", "bootstrap", "--kubeconfig", "mine", *flags.split())
        assert ended.code == 0
        sent = server.requests[-2]
        assert sent.path == f"/api/v1/namespaces/{names.system_namespace}/secrets"
        secret = sent.document
        # As the server stores it.
        secret["data"] = {name: encoded(value) for name, value in secret.pop("stringData").items()}
        token = token_of(secret, names)
        assert token is not None and ended.out == f"{token.id}.{token.secret}\n"
        assert token.authenticates and token.signs and token.expires
        assert token.groups == ("system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b")


@pytest.mark.parametrize(
    ("review", "warned"),
    [
        ((201, {"status": {"authenticated": True}}), False),
        ((201, {"status": {"error": "invalid bearer token"}}), True),
        ((403, {"message": "may not review tokens"}), False),
    ],
)
def test_bootstrap_token_that_the_server_does_not_accept_is_printed_with_a_warning(
    rewound: Run, server: FakeServer, review: tuple[int, dict[str, object]], warned: bool
) -> None:
    server.answers["POST /apis/authentication.cluster.io/v1/tokenreviews"] = review
    ended = rewound("token", "bootstrap")
    assert (ended.code, server.requests[-1].document["spec"]) == (0, {"token": ended.out.strip()})
    warning = "rewound: the server does not accept the token; start it with --enable-bootstrap-token-auth\n"
    assert ended.err == (warning if warned else "")


def test_certificate_is_not_made_for_a_server_without_tls(rewound: Run, server: FakeServer) -> None:
    ended = rewound("kubeconfig", "user", "alice", "--server", "http://127.0.0.1:1")
    assert (ended.code, server.requests) == (1, [])
    assert "http://127.0.0.1:1 has no TLS, and certificates sign in by TLS only; give the https" in ended.err


def test_bootstrap_token_for_one_use_that_never_expires(rewound: Run, server: FakeServer) -> None:
    rewound("token", "bootstrap", "--usage", "signing", "--duration", "0")
    data = server.requests[-1].document["stringData"]
    assert sorted(data) == ["token-id", "token-secret", "usage-bootstrap-signing"]


def test_bootstrap_group_has_a_prefix(rewound: Run, server: FakeServer) -> None:
    assert rewound("token", "bootstrap", "--group", "system:masters").code == 2
    assert server.requests == []


# rewound certificate.


@pytest.mark.parametrize(("action", "condition"), [("approve", "Approved"), ("deny", "Denied")])
def test_decision_is_a_condition_on_approval(
    rewound: Run, server: FakeServer, action: str, condition: str
) -> None:
    stored = {
        "metadata": {"name": "a", "resourceVersion": "7"},
        "status": {"conditions": [{"type": "Other"}]},
    }
    server.answers[f"GET {REQUESTS}/a"] = (200, stored)
    ended = rewound("certificate", action, "a", "b")
    assert (ended.code, ended.err) == (0, "")
    assert (
        ended.out
        == f"certificatesigningrequest/a {condition.lower()}\ncertificatesigningrequest/b {condition.lower()}\n"
    )
    sent = next(one for one in server.requests if one.method == "PUT")
    assert sent.path == f"{REQUESTS}/a/approval"
    assert sent.document["metadata"] == stored["metadata"]
    other, added = sent.document["status"]["conditions"]
    assert (other["type"], added["type"], added["status"]) == ("Other", condition, "True")


def test_decided_request_is_not_written_again(rewound: Run, server: FakeServer) -> None:
    server.answers[f"GET {REQUESTS}/a"] = (200, {"status": {"conditions": [{"type": "Approved"}]}})
    assert rewound("certificate", "approve", "a").code == 0
    assert [one.method for one in server.requests] == ["GET", "GET"]


def test_conflict_is_repeated_with_the_new_version(rewound: Run, server: FakeServer) -> None:
    versions = [{"metadata": {"name": "a", "resourceVersion": version}} for version in ("1", "2")]
    server.answers[f"GET {REQUESTS}/a"] = [(200, one) for one in versions]
    server.answers[f"PUT {REQUESTS}/a/approval"] = [(409, {"message": "changed"}), (200, {})]
    assert rewound("certificate", "approve", "a").code == 0
    assert server.requests[-1].document["metadata"]["resourceVersion"] == "2"


def test_refusal_of_the_server_is_printed(rewound: Run, server: FakeServer) -> None:
    server.answers[f"PUT {REQUESTS}/a/approval"] = (403, {"message": 'user not permitted to approve "x"'})
    ended = rewound("certificate", "approve", "a")
    assert (ended.code, ended.out, ended.err) == (1, "", 'rewound: user not permitted to approve "x"\n')


# rewound kubeconfig.


def written(path: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Cluster, user and context of a file that only its owner can read."""
    assert path.stat().st_mode & 0o777 == 0o600
    document = yaml.safe_load(path.read_text())
    return (
        document["clusters"][0]["cluster"],
        document["users"][0]["user"],
        document["contexts"][0]["context"],
    )


def test_kubeconfig_for_an_account(rewound: Run, server: FakeServer, tmp_path: Path) -> None:
    issue(server, "builder", "other")
    ended = rewound("kubeconfig", "account", "other/builder", "--duration", "1h")
    assert (ended.code, ended.out, ended.err) == (0, "", "wrote builder.kubeconfig\n")
    cluster, user, context = written(tmp_path / "builder.kubeconfig")
    assert cluster == {"server": server.url, "certificate-authority-data": encoded(pki.authority().pem)}
    assert user == {"token": "issued"}
    assert context["namespace"] == "other"
    # The file works.
    server.answers["POST /apis/authorization.cluster.io/v1/selfsubjectaccessreviews"] = (201, {"status": {}})
    rewound("can-i", "get", "pods", "--kubeconfig", "builder.kubeconfig")
    assert server.tokens()[-1] == "Bearer issued"


def test_kubeconfig_for_a_token(rewound: Run, server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("abc\n")
    assert rewound("kubeconfig", "token", "bob", "--from-file", "secret", "-o", "x").code == 0
    assert written(tmp_path / "x")[1] == {"token": "abc"}
    assert server.requests == []


def test_kubeconfig_from_standard_input_to_standard_output(
    rewound: Run, server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("abc\n"))
    ended = rewound("kubeconfig", "token", "bob", "--from-file", "-", "--output", "-")
    assert (ended.code, ended.err) == (0, "")
    assert yaml.safe_load(ended.out)["users"] == [{"name": "bob", "user": {"token": "abc"}}]
    assert not (tmp_path / "-").exists()


def test_names_cannot_change_the_path_of_a_request(rewound: Run, server: FakeServer) -> None:
    rewound("token", "x#y", "-n", "a?b")
    assert server.requests[-1].path == "/api/v1/namespaces/a%3Fb/serviceaccounts/x%23y/token"
    assert rewound("token", "..").err == "rewound: '..' is not a name\n"
    assert rewound("certificate", "approve", "..").code == 2


def test_existing_file_is_replaced_only_with_force(rewound: Run, server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("abc\n")
    (tmp_path / "bob.kubeconfig").write_text("old")
    ended = rewound("kubeconfig", "token", "bob", "--from-file", "secret")
    assert ended.code == 1 and "bob.kubeconfig exists; choose another file with --out" in ended.err
    assert (tmp_path / "bob.kubeconfig").read_text() == "old"
    assert rewound("kubeconfig", "token", "bob", "--from-file", "secret", "--force").code == 0
    assert written(tmp_path / "bob.kubeconfig")[1] == {"token": "abc"}


def test_kubeconfig_for_a_user_through_the_api(rewound: Run, server: FakeServer, tmp_path: Path) -> None:
    path = f"{REQUESTS}/rewound-kubeconfig-x1"
    server.answers[f"POST {REQUESTS}"] = (201, {"metadata": {"name": "rewound-kubeconfig-x1"}})
    signed = (200, {"status": {"certificate": encoded("signed")}})
    server.answers[f"GET {path}"] = [(200, {}), (200, {"status": {}}), signed]
    ended = rewound("kubeconfig", "user", "alice", "--group", "devs", "--duration", "1h")
    assert (ended.code, ended.err) == (0, "wrote alice.kubeconfig\n")
    posted = next(one for one in server.requests if one.method == "POST").document
    assert (posted["spec"]["signerName"], posted["spec"]["expirationSeconds"]) == (
        "cluster.io/api-server-client",
        3600,
    )
    assert "client auth" in posted["spec"]["usages"]
    request = x509.load_pem_x509_csr(base64.b64decode(posted["spec"]["request"]))
    assert names_of(request.subject) == ("alice", ["devs"])
    approved = next(one for one in server.requests if one.method == "PUT")
    assert approved.path == f"{path}/approval"
    assert server.requests[-1].method == "DELETE"
    user = written(tmp_path / "alice.kubeconfig")[1]
    assert user["client-certificate-data"] == encoded("signed")
    assert b"PRIVATE KEY" in base64.b64decode(user["client-key-data"])


def test_request_that_is_not_approved_is_deleted(rewound: Run, server: FakeServer, tmp_path: Path) -> None:
    server.answers[f"POST {REQUESTS}"] = (201, {"metadata": {"name": "x"}})
    server.answers[f"PUT {REQUESTS}/x/approval"] = (403, {"message": "no"})
    ended = rewound("kubeconfig", "user", "alice")
    assert (ended.code, ended.err) == (1, "rewound: no\n")
    assert (server.requests[-1].method, server.requests[-1].path) == ("DELETE", f"{REQUESTS}/x")
    assert not (tmp_path / "alice.kubeconfig").exists()


def test_kubeconfig_signed_with_the_data_folder(rewound: Run, tmp_path: Path) -> None:
    shutil.copytree(certificates("cluster"), tmp_path / "data" / "pki")
    kubeconfig(tmp_path / "data" / "admin.kubeconfig", "https://127.0.0.1:6443", {"token": "admin"})
    flags = ("--group", "devs", "--group", "ops", "--data-dir", "data", "--duration", "24h")
    assert rewound("kubeconfig", "user", "alice", *flags).code == 0
    cluster, user, _ = written(tmp_path / "alice.kubeconfig")
    assert cluster["server"] == "https://127.0.0.1:6443"
    made = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))
    made.verify_directly_issued_by(
        x509.load_pem_x509_certificate((tmp_path / "data" / "pki" / "ca.crt").read_bytes())
    )
    assert names_of(made.subject) == ("alice", ["devs", "ops"])
    usage = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert (made.not_valid_after_utc - made.not_valid_before_utc).total_seconds() == 86400 + 300


def names_of(subject: x509.Name) -> tuple[str, list[str]]:
    common = subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    return str(common), [str(one.value) for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("token", "x"), "--from-file is missing"),
        (("token", "x", "--from-file", "-", "--group", "a"), "--group has no meaning"),
        (("account", "x", "--data-dir", "a"), "--data-dir has no meaning"),
        (("user", "x", "--audience", "a"), "--audience has no meaning"),
        (("robot", "x"), "invalid choice: 'robot'"),
    ],
)
def test_flags_of_another_kind_are_refused(rewound: Run, arguments: tuple[str, ...], text: str) -> None:
    ended = rewound("kubeconfig", *arguments)
    assert ended.code == 2 and text in ended.err


def test_data_folder_without_a_ca_is_reported(rewound: Run, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    kubeconfig(tmp_path / "data" / "admin.kubeconfig", "https://127.0.0.1:6443", {"token": "admin"})
    ended = rewound("kubeconfig", "user", "alice", "--data-dir", "data")
    assert ended.code == 1 and "data/pki/ca.crt: No such file" in ended.err
