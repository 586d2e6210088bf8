"""Who is let in, and who may do what: the token file, anonymous callers, and both ways to authorize."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.settings import SettingsError
from tests.gateway.api import ADMIN, ALICE, config_map, served, settings

PATH = "/api/v1/namespaces/default/configmaps"


async def test_a_token_names_its_user() -> None:
    async with served() as api:
        assert (await api.ask("GET", PATH, token=ADMIN)).status == 200
        status = (await api.ask("GET", PATH, token=ALICE)).expect(403)
        assert 'User "alice" cannot list resource "configmaps"' in status["message"]


@pytest.mark.parametrize("token", ["unknown", ADMIN + "x", ADMIN[:-1], "ä"])
async def test_an_unknown_token_is_refused_everywhere(token: str) -> None:
    async with served() as api:
        headers = {"authorization": f"Bearer {token}".encode()}
        for path in (PATH, "/livez", "/version", "/nowhere"):
            answer = await api.ask("GET", path, token=None, headers=headers)
            assert answer.expect(401)["reason"] == "Unauthorized"


async def test_bearer_may_be_written_in_any_case() -> None:
    async with served() as api:
        for scheme in ("bearer", "BEARER", "Bearer"):
            headers = {"authorization": f"{scheme} {ADMIN}"}
            assert (await api.ask("GET", PATH, token=None, headers=headers)).status == 200


async def test_a_second_space_makes_nobody_of_the_caller_and_warns() -> None:
    async with served() as api:
        answer = await api.ask("GET", PATH, token=None, headers={"authorization": f"Bearer  {ADMIN}"})
        assert answer.status == 403
        assert "extra space before the bearer token" in answer.warnings[0]


async def test_another_scheme_is_no_credential() -> None:
    async with served() as api:
        answer = await api.ask("GET", PATH, token=None, headers={"authorization": "Basic YWRtaW46YWRtaW4="})
        assert 'User "system:anonymous"' in answer.expect(403)["message"]


async def test_without_a_token_file_no_token_is_known() -> None:
    async with served(token_auth_file=None) as api:
        assert (await api.ask("GET", PATH, token=ADMIN)).status == 401
        assert (await api.ask("GET", PATH, token=None)).status == 403


async def test_anonymous_off() -> None:
    async with served(anonymous_auth=False) as api:
        for path in (PATH, "/livez", "/version", "/nowhere"):
            assert (await api.ask("GET", path, token=None)).expect(401)["reason"] == "Unauthorized"
        assert (await api.ask("GET", PATH)).status == 200


@pytest.mark.parametrize("mode", ["RBAC", "Node,RBAC"])
async def test_rbac_gives_resources_to_masters_only(mode: str) -> None:
    async with served(authorization_mode=mode) as api:
        assert (await api.ask("POST", PATH, config_map("a"), token=ADMIN)).status == 201
        for method in ("GET", "POST", "DELETE"):
            assert (await api.ask(method, PATH, token=ALICE)).status == 403
        assert (await api.ask("GET", "/apis", token=ALICE)).status == 200
        assert (await api.ask("GET", "/apis", token=None)).status == 403


async def test_always_allow_gives_everything_to_all_who_signed_in() -> None:
    async with served(authorization_mode="AlwaysAllow", anonymous_auth=False) as api:
        assert (await api.ask("POST", PATH, config_map("a"), token=ALICE)).status == 201
        assert (await api.ask("GET", "/metrics", token=ALICE)).status == 200
        assert (await api.ask("GET", PATH, token=None)).status == 401


def test_always_allow_and_anonymous_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--anonymous-auth"):
        settings(tmp_path, authorization_mode="AlwaysAllow", anonymous_auth=True)


@pytest.mark.parametrize(
    "header", ["impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-scopes"]
)
async def test_nobody_is_taken_for_another(header: str) -> None:
    """Until it is served: acting as oneself where another was named would be worse than refusing."""
    async with served() as api:
        for method, path in (("GET", PATH), ("POST", PATH), ("GET", "/livez")):
            answer = await api.ask(method, path, config_map("a"), headers={header: "bob"})
            assert answer.expect(403)["reason"] == "Forbidden"
        assert (await api.list("configmaps"))["items"] == []
