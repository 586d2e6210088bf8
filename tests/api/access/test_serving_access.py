"""Authentication with a token file or as anonymous, in both authorization modes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.gateway.settings.checks import SettingsError
from tests.cases import cases
from tests.gateway.api import ADMIN, ALICE, config_map, served, settings
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"


async def test_token_authenticates_its_user() -> None:
    async with shared() as api:
        assert (await api.ask("GET", PATH, token=ADMIN)).status == 200
        status = (await api.ask("GET", PATH, token=ALICE)).expect(403)
        assert 'User "alice" cannot list resource "configmaps"' in status["message"]


@cases("token", ["unknown", ADMIN + "x", ADMIN[:-1], "ä"])
async def test_unknown_token_gets_401_on_every_path(token: str) -> None:
    async with shared() as api:
        headers = {"authorization": f"Bearer {token}".encode()}
        for path in (PATH, "/livez", "/version", "/nowhere"):
            answer = await api.ask("GET", path, token=None, headers=headers)
            assert answer.expect(401)["reason"] == "Unauthorized"


async def test_bearer_scheme_is_case_insensitive() -> None:
    async with shared() as api:
        for scheme in ("bearer", "BEARER", "Bearer"):
            headers = {"authorization": f"{scheme} {ADMIN}"}
            assert (await api.ask("GET", PATH, token=None, headers=headers)).status == 200


async def test_second_space_before_the_token_makes_the_caller_anonymous_and_warns() -> None:
    async with shared() as api:
        answer = await api.ask("GET", PATH, token=None, headers={"authorization": f"Bearer  {ADMIN}"})
        assert answer.status == 403
        assert "extra space before the bearer token" in answer.warnings[0]


async def test_other_authorization_schemes_are_ignored() -> None:
    async with shared() as api:
        answer = await api.ask("GET", PATH, token=None, headers={"authorization": "Basic YWRtaW46YWRtaW4="})
        assert 'User "system:anonymous"' in answer.expect(403)["message"]


async def test_without_a_token_file_every_token_gets_401() -> None:
    async with served(token_auth_file=None) as api:
        assert (await api.ask("GET", PATH, token=ADMIN)).status == 401
        assert (await api.ask("GET", PATH, token=None)).status == 403


async def test_token_file_is_read_at_the_start_only_and_tokens_last_for_ever() -> None:
    async with served() as api:
        assert api.settings.token_auth_file is not None
        api.settings.token_auth_file.write_text("new-token,bob,3\n")
        api.clock.advance(10 * 365 * 86400)
        assert (await api.ask("GET", PATH, token=ADMIN)).status == 200
        assert (await api.ask("GET", PATH, token="new-token")).status == 401


async def test_users_and_groups_are_no_objects_of_the_api() -> None:
    async with served() as api:
        for plural in ("users", "groups"):
            for method, path in (("GET", plural), ("POST", plural), ("GET", f"{plural}/admin")):
                assert (await api.ask(method, f"/api/v1/{path}", config_map("a"))).status == 404


async def test_anonymous_auth_off_gives_401_without_credentials() -> None:
    async with served(anonymous_auth=False) as api:
        for path in (PATH, "/livez", "/version", "/nowhere"):
            assert (await api.ask("GET", path, token=None)).expect(401)["reason"] == "Unauthorized"
        assert (await api.ask("GET", PATH)).status == 200


@pytest.mark.parametrize("mode", ["RBAC", "Node,RBAC"])
async def test_rbac_allows_resources_to_system_masters_only(mode: str) -> None:
    async with served(authorization_mode=mode) as api:
        assert (await api.ask("POST", PATH, config_map("a"), token=ADMIN)).status == 201
        for method in ("GET", "POST", "DELETE"):
            assert (await api.ask(method, PATH, token=ALICE)).status == 403
        assert (await api.ask("GET", "/apis", token=ALICE)).status == 200
        assert (await api.ask("GET", "/apis", token=None)).status == 403


async def test_always_allow_allows_everything_to_authenticated_users() -> None:
    async with served(authorization_mode="AlwaysAllow", anonymous_auth=False) as api:
        assert (await api.ask("POST", PATH, config_map("a"), token=ALICE)).status == 201
        assert (await api.ask("GET", "/metrics", token=ALICE)).status == 200
        assert (await api.ask("GET", PATH, token=None)).status == 401


def test_always_allow_with_anonymous_auth_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--anonymous-auth"):
        settings(tmp_path, authorization_mode="AlwaysAllow", anonymous_auth=True)
