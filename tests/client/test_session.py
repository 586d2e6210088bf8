"""Requests with the credentials of a kubeconfig file, to a real TLS server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rewound.client.errors import ClientError, ConfigError, CredentialError, StatusError
from rewound.client.kubeconfig import Overrides, load_target
from rewound.client.session import Session
from rewound.client.target import environment_proxy
from tests.cases import cases
from tests.client import pki
from tests.client.fake_server import fake_server
from tests.client.files import CLUSTER_V1, credential, encoded, kubeconfig, plugin, runs, script

EXEC = {"exec": {"apiVersion": CLUSTER_V1, "command": "./plugin", "interactiveMode": "Never"}}


def session(path: Path, **overrides: Any) -> Session:
    return Session(load_target(Overrides(kubeconfig=path, **overrides), {}))


def certificate(name: str) -> dict[str, str]:
    one = pki.client(name)
    return {"client-certificate-data": encoded(one.pem), "client-key-data": encoded(one.key)}


def test_token_is_sent_and_the_document_returned(tmp_path: Path) -> None:
    with fake_server() as server:
        server.answers["GET /api"] = (200, {"versions": ["v1"]})
        with session(kubeconfig(tmp_path / "config", server.url, {"token": "abc"})) as client:
            assert client.get("/api") == {"versions": ["v1"]}
        assert server.tokens() == ["Bearer abc"]


def test_client_certificate_is_presented(tmp_path: Path) -> None:
    with fake_server() as server:
        with session(kubeconfig(tmp_path / "config", server.url, certificate("alice"))) as client:
            client.get("/api")
        assert server.requests[0].common_name == "alice"
        assert server.tokens() == [None]


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    one = pki.client("alice")
    (folder / "me.crt").write_text(one.pem)
    (folder / "me.key").write_text(one.key)
    (folder / "ca.crt").write_text(pki.authority().pem)
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    with fake_server() as server:
        cluster: dict[str, Any] = {"certificate-authority-data": None, "certificate-authority": "ca.crt"}
        kubeconfig(folder / "config", server.url, user, **cluster)
        monkeypatch.chdir(tmp_path)
        with session(Path("deep/config")) as client:
            client.get("/api")
        assert server.requests[0].common_name == "alice"


def test_renewed_certificate_is_presented_once_it_fits_its_key(tmp_path: Path) -> None:
    files = {"client-certificate": "tls.crt", "client-key": "tls.key"}

    def write(name: str, text: str) -> None:
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").replace(tmp_path / name)

    write("tls.crt", pki.client("alice").pem)
    write("tls.key", pki.client("alice").key)
    with fake_server() as server:
        with session(kubeconfig(tmp_path / "config", server.url, files)) as client:
            client.get("/api")
            write("tls.crt", pki.client("bob").pem)
            client.get("/api")
            write("tls.key", pki.client("bob").key)
            client.get("/api")
            (tmp_path / "tls.key").unlink()
            client.get("/api")
        assert [one.common_name for one in server.requests] == ["alice", "alice", "bob", "bob"]


def test_basic_credentials_are_sent(tmp_path: Path) -> None:
    with fake_server() as server:
        user = {"username": "a", "password": "b"}
        with session(kubeconfig(tmp_path / "config", server.url, user)) as client:
            client.get("/api")
        assert server.tokens() == [f"Basic {encoded('a:b')}"]


def test_token_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    tokens = tmp_path / "token"
    tokens.write_text("one\n")
    with fake_server() as server:
        with session(kubeconfig(tmp_path / "config", server.url, {"tokenFile": "token"})) as client:
            client.get("/api")
            client.get("/api")
            replacement = tmp_path / "new"
            replacement.write_text("two\n")
            replacement.replace(tokens)
            client.get("/api")
        assert server.tokens() == ["Bearer one", "Bearer one", "Bearer two"]


def test_token_file_takes_precedence_over_a_token_once_it_can_be_read(tmp_path: Path) -> None:
    with fake_server() as server:
        user = {"tokenFile": "token", "token": "inline"}
        with session(kubeconfig(tmp_path / "config", server.url, user)) as client:
            client.get("/api")
            (tmp_path / "token").write_text("file")
            client.get("/api")
        assert server.tokens() == ["Bearer inline", "Bearer file"]


@pytest.mark.parametrize("text", [None, "", "two words"])
def test_last_token_is_used_on_while_its_file_is_unusable(tmp_path: Path, text: str | None) -> None:
    tokens = tmp_path / "token"
    tokens.write_text("one")
    with fake_server() as server:
        with session(kubeconfig(tmp_path / "config", server.url, {"tokenFile": "token"})) as client:
            client.get("/api")
            tokens.unlink() if text is None else tokens.write_text(text)
            client.get("/api")
            tokens.write_text("newest")
            client.get("/api")
        assert server.tokens() == ["Bearer one", "Bearer one", "Bearer newest"]


@pytest.mark.parametrize("text", [None, "", "two words"])
def test_unusable_token_file_is_an_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "token").write_text(text)
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", {"tokenFile": "token"})
    with session(path) as client, pytest.raises(CredentialError) as refused:
        client.get("/api")
    assert str(refused.value).startswith(f"{path}: users[me].user.tokenFile: ")


def test_token_flag_replaces_every_credential_of_the_file(tmp_path: Path) -> None:
    with fake_server() as server:
        user = {**EXEC, **certificate("alice")}
        with session(kubeconfig(tmp_path / "config", server.url, user), token="mine") as client:
            client.get("/api")
        assert (server.tokens(), server.requests[0].common_name) == (["Bearer mine"], "")


def test_impersonation_of_the_flags_is_sent(tmp_path: Path) -> None:
    with fake_server() as server:
        path = kubeconfig(tmp_path / "config", server.url, {"token": "t", "as": "other", "as-groups": ["x"]})
        with session(path, impersonated_user="zoë, a", impersonated_groups=("g1", "g, 2")) as client:
            client.get("/api")
        headers = server.requests[0].headers
        assert headers["impersonate-user"].encode("latin-1").decode() == "zoë, a"
        assert headers.get_all("impersonate-group") == ["g1", "g, 2"]
        assert not [
            name for name in headers if name.lower().startswith(("impersonate-extra", "impersonate-uid"))
        ]


@pytest.mark.parametrize("token", ["hush\n", "hush\r\nx: y", "hush\x00", "hush "])
def test_token_that_no_header_can_have_is_refused_without_quoting_it(tmp_path: Path, token: str) -> None:
    with fake_server() as server:
        path = kubeconfig(tmp_path / "config", server.url, {"token": token})
        with (
            session(path) as client,
            pytest.raises(CredentialError, match="the header authorization") as refused,
        ):
            client.get("/api")
        assert "hush" not in str(refused.value) and str(path) in str(refused.value)
        assert server.requests == []


def test_impersonation_of_the_file_is_sent(tmp_path: Path) -> None:
    with fake_server() as server:
        path = kubeconfig(
            tmp_path / "config", server.url, {"token": "t", "as": "bob", "as-groups": ["x", "y"]}
        )
        with session(path) as client:
            client.get("/api")
        headers = server.requests[0].headers
        assert (headers["impersonate-user"], headers.get_all("impersonate-group")) == ("bob", ["x", "y"])


def test_flag_replaces_only_its_own_part_of_the_impersonation(tmp_path: Path) -> None:
    with fake_server() as server:
        path = kubeconfig(tmp_path / "config", server.url, {"token": "t", "as": "bob", "as-groups": ["x"]})
        for overrides in ({"impersonated_user": "eve"}, {"impersonated_groups": ("y",)}):
            with session(path, **overrides) as client:
                client.get("/api")
        sent = [
            (one.headers["impersonate-user"], one.headers.get_all("impersonate-group"))
            for one in server.requests
        ]
        assert sent == [("eve", ["x"]), ("bob", ["y"])]


def test_groups_are_not_impersonated_without_a_user(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", {"token": "t"})
    with pytest.raises(ConfigError, match=r"--as-group: groups cannot be impersonated without a user"):
        session(path, impersonated_groups=("g",))


@pytest.mark.parametrize("name", ["as-uid", "as-user-extra"])
def test_uid_and_extra_are_not_impersonated(tmp_path: Path, name: str) -> None:
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", {"token": "t", "as": "x", name: "u"})
    with pytest.raises(
        ConfigError, match=rf"users\[me\].user.{name}: this client impersonates a user and groups"
    ):
        session(path)


def test_refusal_is_the_message_of_the_server(tmp_path: Path) -> None:
    with fake_server() as server:
        server.answers["GET /api"] = (403, {"kind": "Status", "reason": "Forbidden", "message": "no, alice"})
        path = kubeconfig(tmp_path / "config", server.url, {"token": "t"})
        with session(path) as client, pytest.raises(StatusError) as refused:
            client.get("/api")
        assert (refused.value.code, refused.value.reason, str(refused.value)) == (
            403,
            "Forbidden",
            "no, alice",
        )


def test_busy_server_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("rewound.client.session.sleep", waited.append)
    busy = {"message": "too many requests"}
    with fake_server() as server, session(kubeconfig(tmp_path / "config", server.url, {})) as client:
        server.answers["POST /api"] = [
            (429, busy, {"Retry-After": "2"}),
            (503, {"message": "too many requests\x1b[1m"}, {"Retry-After": "1"}),
            (201, {}),
        ]
        assert client.post("/api", {"a": 1}) == {}
        assert waited == [2, 1]
        assert [one.document for one in server.requests] == [{"a": 1}] * 3
        assert capsys.readouterr().err == (
            "rewound: too many requests; trying again in 2 s\n"
            "rewound: too many requests\\x1b[1m; trying again in 1 s\n"
        )
        # Only a few times, only briefly, and only where the server asks for it.
        for answer, requests in (
            ((429, busy, {"Retry-After": "1"}), 11),
            ((429, busy, {"Retry-After": "61"}), 1),
            ((429, busy, {"Retry-After": "Tue, 01 Jan 2030 00:00:00 GMT"}), 1),
            ((503, busy), 1),
            ((504, busy, {"Retry-After": "1"}), 1),
            ((507, busy, {"Retry-After": "1"}), 1),
            ((409, busy, {"Retry-After": "1"}), 1),
        ):
            server.requests.clear()
            server.answers["GET /api"] = answer
            with pytest.raises(StatusError, match="too many requests"):
                client.get("/api")
            assert len(server.requests) == requests, answer


@pytest.mark.parametrize("code", [401, 403])
def test_refusal_says_that_the_request_had_no_credentials(tmp_path: Path, code: int) -> None:
    with fake_server() as server, fake_server(plain=True) as plain:
        # Without TLS nobody presents a certificate.
        for one, user in ((server, {}), (plain, certificate("alice"))):
            one.answers["GET /api"] = (code, {"message": "no"})
            path = kubeconfig(tmp_path / "config", one.url, user)
            with session(path) as client, pytest.raises(StatusError) as refused:
                client.get("/api")
            hint = f"give a token with --token, or check the user of context main of {path}"
            assert str(refused.value) == f"no: the request had no credentials; {hint}"


def test_401_names_the_file(tmp_path: Path) -> None:
    with fake_server() as server:
        server.answers["GET /api"] = (401, {"message": "Unauthorized"})
        path = kubeconfig(tmp_path / "config", server.url, {"token": "hush"})
        with (
            session(path) as client,
            pytest.raises(StatusError, match=f"check context main of {path}") as refused,
        ):
            client.get("/api")
        assert "hush" not in str(refused.value)


def test_server_with_another_authority_is_not_trusted(tmp_path: Path) -> None:
    other = pki.issue("other", None, is_ca=True)
    with fake_server() as server:
        path = kubeconfig(
            tmp_path / "config",
            server.url,
            {"token": "t"},
            **{"certificate-authority-data": encoded(other.pem)},
        )
        with (
            session(path) as client,
            pytest.raises(ClientError, match=r"is not trusted: .*certificate-authority"),
        ):
            client.get("/api")
        assert server.requests == []


def test_insecure_server_is_reached_without_verification(tmp_path: Path) -> None:
    with fake_server() as server:
        cluster = {"certificate-authority-data": None, "insecure-skip-tls-verify": True}
        with session(kubeconfig(tmp_path / "config", server.url, {}, **cluster)) as client:
            client.get("/api")


def test_tls_server_name_is_asked_for_and_verified(tmp_path: Path) -> None:
    with fake_server() as server:
        with session(
            kubeconfig(tmp_path / "config", server.url, {}, **{"tls-server-name": "api.test"})
        ) as client:
            client.get("/api")
        assert server.requests[0].server_name == "api.test"
        with (
            session(
                kubeconfig(tmp_path / "config", server.url, {}, **{"tls-server-name": "else.test"})
            ) as client,
            pytest.raises(ClientError, match="is not trusted"),
        ):
            client.get("/api")


def test_requests_go_through_the_proxy(tmp_path: Path) -> None:
    with fake_server(plain=True) as proxy:
        proxy.answers["GET http://api.test/api"] = (200, {"via": "proxy"})
        path = kubeconfig(tmp_path / "config", "http://api.test", {"token": "t"}, **{"proxy-url": proxy.url})
        with session(path) as client:
            assert client.get("/api") == {"via": "proxy"}


def test_proxy_of_the_environment_is_not_used_for_networks_of_no_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_server(plain=True) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "192.0.2.0/24, 198.51.100.0/24,not/a/network")
        with session(kubeconfig(tmp_path / "config", "http://203.0.113.1", {"token": "t"})) as client:
            proxy.answers["GET http://203.0.113.1/api"] = (200, {"via": "proxy"})
            assert client.get("/api") == {"via": "proxy"}


@cases(
    ("server", "no_proxy", "used"),
    [
        ("https://api.test", "", True),
        ("https://127.0.0.1", "", False),
        ("https://localhost:6443", "", False),
        ("https://[::1]", "", False),
        ("https://api.test", "*", False),
        ("https://api.test", "api.test", False),
        ("https://API.test", " x, Api.Test ", False),
        ("https://a.api.test", "api.test", False),
        ("https://myapi.test", "api.test", True),
        ("https://api.test", ".test", False),
        ("https://test", ".test", True),
        ("https://api.test", "*.test", False),
        ("https://api.test", "api.test:443", False),
        ("https://api.test:6443", "api.test:443", True),
        ("https://192.0.2.7", "192.0.2.7", False),
        ("https://192.0.2.7:6443", "192.0.2.7:443", True),
        ("https://192.0.2.7", "192.0.2.0/24", False),
        ("https://192.0.3.7", "192.0.2.0/24,not/a/network", True),
        ("https://[2001:db8::7]", "2001:db8::/32", False),
        ("https://[2001:db8::7]", "2001:db8::7", False),
        ("https://[2001:db8::7]:6443", "[2001:db8::7]:6443", False),
    ],
)
def test_proxy_of_the_environment_is_chosen_as_in_go(server: str, no_proxy: str, used: bool) -> None:
    proxy = {"HTTPS_PROXY": "proxy:3128", "ALL_PROXY": "socks5://ignored", "HTTP_PROXY": "http://other"}
    for name in ("NO_PROXY", "no_proxy"):
        found = environment_proxy(server, {**proxy, name: no_proxy})
        assert found == ("http://proxy:3128" if used else "")
    assert environment_proxy(server, {"ALL_PROXY": "socks5://ignored"}) == ""


def test_proxy_that_is_not_supported_is_refused_without_its_password(tmp_path: Path) -> None:
    path = kubeconfig(
        tmp_path / "config", "https://127.0.0.1:1", {}, **{"proxy-url": "socks9://me:hush@127.0.0.1:1"}
    )
    with session(path) as client, pytest.raises(ClientError, match="proxy-url cannot be used") as refused:
        client.get("/api")
    assert "hush" not in str(refused.value)


def test_stopped_server_is_an_error_with_its_address_and_file(tmp_path: Path) -> None:
    with fake_server() as server:
        pass
    path = kubeconfig(tmp_path / "config", server.url, {})
    with session(path) as client, pytest.raises(ClientError) as refused:
        client.get("/api")
    assert f"cannot reach {server.url}" in str(refused.value)
    assert str(path) in str(refused.value)


def test_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    user = {**certificate("alice"), "client-key-data": encoded(pki.client("bob").key)}
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", user)
    with session(path) as client, pytest.raises(CredentialError, match="cannot be used; both must be PEM"):
        client.get("/api")
    assert not [name for name in os.listdir(tmp_path) if name != "config"]


# Plugins.


def test_401_reaches_the_caller_and_the_next_request_has_a_new_credential(tmp_path: Path) -> None:
    plugin(tmp_path, credential(token="t1"), credential(token="t2"))
    with fake_server() as server:
        server.answers["GET /api"] = [(401, {"message": "Unauthorized"}), (200, {}), (200, {})]
        with session(kubeconfig(tmp_path / "config", server.url, EXEC)) as client:
            with pytest.raises(StatusError, match="Unauthorized"):
                client.get("/api")
            client.get("/api")
            client.get("/api")
        assert server.tokens() == ["Bearer t1", "Bearer t2", "Bearer t2"]
        assert runs(tmp_path) == 2
        # Another token needs no other connection.
        assert len({one.connection for one in server.requests}) == 1


def issued(name: str) -> str:
    one = pki.client(name)
    return credential(clientCertificateData=one.pem, clientKeyData=one.key)


def test_new_certificate_makes_a_new_handshake(tmp_path: Path) -> None:
    plugin(tmp_path, issued("alice"), issued("bob"), issued("bob"))
    with fake_server() as server:
        refused = (401, {"message": "Unauthorized"})
        server.answers["GET /api"] = [refused, refused, (200, {})]
        with session(kubeconfig(tmp_path / "config", server.url, EXEC)) as client:
            for _ in range(2):
                with pytest.raises(StatusError):
                    client.get("/api")
            client.get("/api")
        assert [one.common_name for one in server.requests] == ["alice", "bob", "bob"]
        first, second, third = (one.connection for one in server.requests)
        # The same certificate again keeps the connection.
        assert first != second == third


def test_intermediates_of_the_plugin_are_sent(tmp_path: Path) -> None:
    between = pki.issue("between", pki.authority(), is_ca=True)
    leaf = pki.issue("deep", between)
    plugin(tmp_path, credential(clientCertificateData=leaf.pem + between.pem, clientKeyData=leaf.key))
    with fake_server() as server:
        with session(kubeconfig(tmp_path / "config", server.url, EXEC)) as client:
            client.get("/api")
        # The server knows only the root: without the intermediate it could not verify.
        assert server.requests[0].common_name == "deep"


def test_plugin_does_not_run_for_a_user_with_a_certificate(tmp_path: Path) -> None:
    plugin(tmp_path, credential(token="t1"))
    with fake_server() as server:
        with session(kubeconfig(tmp_path / "config", server.url, {**EXEC, **certificate("alice")})) as client:
            client.get("/api")
        assert server.requests[0].common_name == "alice"
        assert "authorization" not in server.requests[0].headers
    assert runs(tmp_path) == 0


def test_plugin_does_not_run_for_a_user_with_a_token(tmp_path: Path) -> None:
    plugin(tmp_path, credential(token="t1"))
    with fake_server() as server:
        with session(kubeconfig(tmp_path / "config", server.url, {**EXEC, "token": "mine"})) as client:
            client.get("/api")
        assert server.tokens() == ["Bearer mine"]
    assert runs(tmp_path) == 0


def test_plugin_learns_the_authority_of_the_flag(tmp_path: Path) -> None:
    plugin(tmp_path, credential(token="t1"))
    (tmp_path / "ca.crt").write_text(pki.authority().pem)
    user = {"exec": {**EXEC["exec"], "provideClusterInfo": True}}
    insecure = {"insecure-skip-tls-verify": True, "certificate-authority-data": "", "tls-server-name": "else"}
    with fake_server() as server:
        path = kubeconfig(tmp_path / "config", "https://else", user, **insecure)
        with session(path, server=server.url, certificate_authority=tmp_path / "ca.crt") as client:
            client.get("/api")
    cluster = json.loads((tmp_path / "input").read_text())["spec"]["cluster"]
    data = encoded(pki.authority().pem)
    assert cluster == {"server": server.url, "certificate-authority-data": data}


@pytest.mark.parametrize("dialect", ["cluster.io", "k8s.io"])
def test_plugin_learns_the_cluster_with_the_config_of_its_extension(tmp_path: Path, dialect: str) -> None:
    version = f"client.authentication.{dialect}/v1"
    variable = "CLUSTER_EXEC_INFO" if dialect == "cluster.io" else "KUBERNETES_EXEC_INFO"
    (tmp_path / "answer").write_text(credential(version, token="t"))
    script(tmp_path / "plugin", f'cd {tmp_path}; echo "${variable}" >input; cat answer')
    user = {"exec": {**EXEC["exec"], "apiVersion": version, "provideClusterInfo": True}}
    extensions = [
        {"name": "other", "extension": {"x": 1}},
        {"name": f"client.authentication.{dialect}/exec", "extension": {"audience": "a", "on": "2024-01-01"}},
    ]
    with fake_server() as server:
        path = kubeconfig(
            tmp_path / "config", server.url, user, extensions=extensions, **{"tls-server-name": "localhost"}
        )
        with session(path) as client:
            client.get("/api")
    assert json.loads((tmp_path / "input").read_text())["spec"]["cluster"] == {
        "server": server.url,
        "tls-server-name": "localhost",
        "certificate-authority-data": encoded(pki.authority().pem),
        "config": {"audience": "a", "on": "2024-01-01"},
    }


@pytest.mark.parametrize("how", ["file", "flag"])
def test_credentials_of_a_url_are_sent_and_never_shown(tmp_path: Path, how: str) -> None:
    with fake_server() as server:
        url = server.url.replace("://", "://front:p%40ss@")
        server.answers["GET /api"] = (503, None)
        path = kubeconfig(tmp_path / "config", url if how == "file" else server.url, certificate("alice"))
        with (
            session(path, server=url if how == "flag" else "") as client,
            pytest.raises(StatusError) as refused,
        ):
            client.get("/api")
        assert server.tokens() == ["Basic ZnJvbnQ6cEBzcw=="]
        assert server.requests[0].common_name == "alice"
        assert server.url in str(refused.value)
    with pytest.raises(ClientError) as unreachable:
        client.get("/api")
    assert f"cannot reach {server.url}: " in str(unreachable.value)
    for shown in (str(refused.value), str(unreachable.value), repr(client.target), client.target.server):
        assert "front" not in shown and "ss@" not in shown
