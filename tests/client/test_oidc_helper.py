"""The oidc auth-provider: stores tokens in the kubeconfig file and refreshes an expired ID token at the provider."""

from __future__ import annotations

import base64
import json
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from rewound.client.errors import ClientError
from rewound.client.kubeconfig import Overrides, load_target
from tests.client import pki
from tests.client.fake_server import FakeServer, fake_server
from tests.client.files import encoded, kubeconfig

DISCOVERY = "GET /realm/.well-known/openid-configuration"
REFRESH = "POST /realm/token"


def id_token(seconds: float, name: str = "me") -> str:
    """A JWT that expires this many seconds from now; nothing here checks its signature."""
    parts: list[Any] = [{"alg": "RS256"}, {"sub": name, "exp": int(time.time() + seconds)}]
    encoded = (base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts)
    return ".".join([*encoded, "c2ln"])


def provider(server: FakeServer, response: Any = None, status: int = 200, **discovery: Any) -> None:
    server.answers[DISCOVERY] = (200, {"token_endpoint": f"{server.url}/realm/token", **discovery})
    server.answers[REFRESH] = (status, response)


def config(path: Path, issuer: FakeServer, **changed: Any) -> Path:
    given = {
        "idp-issuer-url": f"{issuer.url}/realm",
        "client-id": "rewound",
        "client-secret": "client hush",
        "refresh-token": "refresh-hush",
        "idp-certificate-authority-data": encoded(pki.authority().pem),
        "id-token": id_token(-5),
        **changed,
    }
    fields = {name: value for name, value in given.items() if value is not None}
    kubeconfig(path, "https://127.0.0.1:1", {"auth-provider": {"name": "oidc", "config": fields}})
    path.chmod(0o600)
    return path


def stored(path: Path) -> dict[str, str]:
    found: dict[str, str] = yaml.safe_load(path.read_text())["users"][0]["user"]["auth-provider"]["config"]
    return found


def authorization(path: Path) -> str:
    return load_target(Overrides(kubeconfig=path), {}).credentials.credential().authorization


def refused(path: Path) -> str:
    with pytest.raises(ClientError) as error:
        authorization(path)
    assert "hush" not in str(error.value)
    return str(error.value)


def test_valid_id_token_is_used_without_the_provider(tmp_path: Path) -> None:
    with fake_server() as server:
        token = id_token(600)
        path = config(tmp_path / "config", server, **{"id-token": token})
        assert authorization(path) == f"Bearer {token}"
        assert server.requests == []


@pytest.mark.parametrize("old", [-5.0, 5.0, None, "", "unreadable"])
def test_expired_id_token_is_refreshed_and_written_back(tmp_path: Path, old: float | str | None) -> None:
    with fake_server() as server:
        new = id_token(600, "new")
        provider(server, {"id_token": new, "refresh_token": "next"})
        token = id_token(old) if isinstance(old, float) else old
        path = config(tmp_path / "config", server, **{"id-token": token})
        before = stored(path)
        assert authorization(path) == f"Bearer {new}"
        assert stored(path) == {**before, "id-token": new, "refresh-token": "next"}
        assert path.stat().st_mode & 0o777 == 0o600
        sent = server.requests[1]
        assert parse_qs(sent.body.decode()) == {
            "grant_type": ["refresh_token"],
            "refresh_token": ["refresh-hush"],
        }
        assert sent.headers["authorization"] == f"Basic {encoded('rewound:client+hush')}"
        # The next command uses what the file has.
        assert authorization(path) == f"Bearer {new}"
        assert len(server.requests) == 2
        assert [one.name for one in tmp_path.iterdir()] == ["config"]


def test_provider_is_reached_through_the_proxy_that_go_would_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with fake_server() as server:
        provider(server, {"id_token": id_token(600)})
        assert authorization(config(tmp_path / "config", server)).startswith("Bearer ")
        monkeypatch.setenv("HTTPS_PROXY", "socks9://me:hush@127.0.0.1:1")
        path = config(tmp_path / "config", server, **{"idp-issuer-url": "https://idp.test"})
        assert "cannot reach the provider: the proxy cannot be used; check the URL, idp-cert" in refused(path)


def test_file_that_became_unreadable_is_an_error(tmp_path: Path) -> None:
    with fake_server() as server:
        path = config(tmp_path / "config", server)
        source = load_target(Overrides(kubeconfig=path), {}).credentials
        path.write_text("[")
        with pytest.raises(
            ClientError, match=r"config: is neither YAML nor JSON.*; correct it, or pass an ID token"
        ):
            source.credential()
        assert server.requests == []


def test_refresh_token_stays_where_the_provider_gives_no_other(tmp_path: Path) -> None:
    with fake_server() as server:
        provider(server, {"id_token": id_token(600)})
        path = config(tmp_path / "config", server)
        authorization(path)
        assert stored(path)["refresh-token"] == "refresh-hush"


@pytest.mark.parametrize(
    ("secret", "form"),
    [("s", {"client_id": ["rewound"], "client_secret": ["s"]}), (None, {"client_id": ["rewound"]})],
)
def test_client_identifies_itself_as_the_provider_wants(
    tmp_path: Path, secret: str | None, form: Any
) -> None:
    with fake_server() as server:
        methods = ["client_secret_post"]
        provider(server, {"id_token": id_token(600)}, token_endpoint_auth_methods_supported=methods)
        authorization(config(tmp_path / "config", server, **{"client-secret": secret}))
        sent = parse_qs(server.requests[1].body.decode())
        assert {name: sent[name] for name in sent if name.startswith("client")} == form
        assert server.tokens() == [None, None]


def test_comments_and_other_entries_stay(tmp_path: Path) -> None:
    with fake_server() as server:
        new = id_token(600)
        provider(server, {"id_token": new})
        text = f"""\
# mine
current-context: c
clusters: [{{name: a, cluster: {{server: "https://127.0.0.1:1"}}}}]
contexts: [{{name: c, context: {{cluster: a, user: me}}}}]
users:
- name: other
  user: {{auth-provider: {{name: oidc, config: {{id-token: keep}}}}}}
- name: me
  user:
    auth-provider:
      config:
        idp-issuer-url: {server.url}/realm   # the issuer
        client-id: rewound
        idp-certificate-authority: ca.crt
        id-token:
        refresh-token: >-
          folded
      name: oidc
preferences: {{since: 2024-01-01T00:00:00Z}}
"""
        (tmp_path / "ca.crt").write_text(pki.authority().pem)
        path = tmp_path / "config"
        path.write_text(text)
        path.chmod(0o640)
        link = tmp_path / "link"
        link.symlink_to(path)
        assert authorization(link) == f"Bearer {new}"
        assert path.read_text() == text.replace("id-token:\n", f'id-token: "{new}"\n')
        assert link.is_symlink()
        assert path.stat().st_mode & 0o777 == 0o640


def test_file_in_json_stays_json(tmp_path: Path) -> None:
    with fake_server() as server:
        new = id_token(600)
        provider(server, {"id_token": new})
        path = config(tmp_path / "config", server, **{"id-token": None})
        document = yaml.safe_load(path.read_text())
        path.write_text(json.dumps(document))
        assert authorization(path) == f"Bearer {new}"
        document["users"][0]["user"]["auth-provider"]["config"]["id-token"] = new
        assert json.loads(path.read_text()) == document


def test_commands_at_the_same_time_refresh_once(tmp_path: Path) -> None:
    with fake_server() as server:
        new = id_token(600)
        provider(server)
        # A refresh token that is valid once.
        refusal = (400, {"error": "invalid_grant"})
        server.answers[REFRESH] = [
            (200, {"id_token": new, "refresh_token": "next"}),
            refusal,
            refusal,
            refusal,
        ]
        path = config(tmp_path / "config", server)
        found: list[str] = []
        threads = [threading.Thread(target=lambda: found.append(authorization(path))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert found == [f"Bearer {new}"] * 4
        assert [one.method for one in server.requests] == ["GET", "POST"]


def test_response_without_id_token_is_a_clear_error(tmp_path: Path) -> None:
    with fake_server() as server:
        provider(server, {"access_token": "hush"})
        path = config(tmp_path / "config", server)
        before = path.read_text()
        assert "to the refresh has no id_token" in (text := refused(path)) and "--token" in text
        assert text.startswith(f"{path}: users[me].user.auth-provider.config: ")
        assert path.read_text() == before


def test_refused_refresh_names_the_code_of_the_provider(tmp_path: Path) -> None:
    with fake_server() as server:
        provider(server, {"error": "invalid_grant", "error_description": "hush"}, 400)
        assert "config.refresh-token: the provider refused it with 400 (invalid_grant); sign in" in refused(
            config(tmp_path / "config", server)
        )


def test_expired_token_without_refresh_token_is_an_error(tmp_path: Path) -> None:
    with fake_server() as server:
        assert "there is no refresh-token; sign in" in refused(
            config(tmp_path / "config", server, **{"refresh-token": None})
        )


def test_secrets_go_to_https_only(tmp_path: Path) -> None:
    with fake_server() as server:
        provider(server, {"id_token": id_token(600)}, token_endpoint="http://127.0.0.1:1/token")
        assert "names no token_endpoint with https" in refused(config(tmp_path / "config", server))
        assert "idp-issuer-url is not a URL that begins with https://" in refused(
            config(tmp_path / "config", server, **{"idp-issuer-url": "http://127.0.0.1:1"})
        )


def test_provider_with_another_authority_is_not_trusted(tmp_path: Path) -> None:
    other = pki.issue("other", None, is_ca=True)
    with fake_server() as server:
        provider(server, {"id_token": id_token(600)})
        path = config(tmp_path / "config", server, **{"idp-certificate-authority-data": encoded(other.pem)})
        assert "cannot reach the provider" in refused(path)
        assert server.requests == []


def test_command_that_finds_a_fresh_token_in_the_file_does_not_refresh(tmp_path: Path) -> None:
    with fake_server() as server:
        path = config(tmp_path / "config", server)
        source = load_target(Overrides(kubeconfig=path), {}).credentials
        token = id_token(600)
        config(path, server, **{"id-token": token})
        assert source.credential().authorization == f"Bearer {token}"
        assert server.requests == []


def test_lock_of_another_program_is_waited_for_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewound.client.kubeconfig_edit._LOCK_SECONDS", 0)
    with fake_server() as server:
        path = config(tmp_path / "config", server)
        (tmp_path / "config.lock").touch()
        assert "another program holds config.lock; if none runs, delete that file" in refused(path)
        assert (tmp_path / "config.lock").exists()


def test_wrong_fields_are_named(tmp_path: Path) -> None:
    with fake_server() as server:
        for field, value, text in (
            ("client-id", None, "config.client-id is missing"),
            ("idp-certificate-authority-data", "?", "config.idp-certificate-authority-data is not base64"),
            ("id-token", 7, "config.id-token is not a string"),
        ):
            assert text in refused(config(tmp_path / "config", server, **{field: value}))
