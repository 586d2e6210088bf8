"""Repeated header lines: equal ones count once, different ones are refused."""

from __future__ import annotations

from tests.api.requests.header_fields import AUTHORIZED, Fields, both_protocols, send
from tests.cases import checking
from tests.gateway.api import ADMIN, ALICE
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"
BODY = b'{"metadata":{"name":"a"}}'
JSON: Fields = [("content-type", "application/json")]
YAML: Fields = [("content-type", "application/yaml")]
AS_ALICE: Fields = [("impersonate-user", "alice")]
GROUPS: Fields = [("impersonate-group", "system:masters"), ("impersonate-group", "system:masters")]


@both_protocols
async def test_repeated_header_lines_count_once_if_equal(protocol: str) -> None:
    async with shared() as api:
        with checking() as case:
            for fields, status in (
                (AUTHORIZED * 2 + JSON, 201),
                (AUTHORIZED * 3 + JSON * 2, 201),
                ([*AUTHORIZED, ("authorization", f"Bearer {ALICE}"), *JSON], 401),
                ([("authorization", f"Bearer {ALICE}"), *AUTHORIZED, *JSON], 401),
                (AUTHORIZED + JSON + YAML, 415),
                (AUTHORIZED + JSON * 2 + [("accept", "application/json")] * 2, 201),
                (AUTHORIZED + JSON + AS_ALICE * 2 + GROUPS, 201),
                (AUTHORIZED + JSON + [("accept", "text/html"), ("accept", "application/json")], 201),
            ):
                with case(fields):
                    found, body = await send(api, protocol, "POST", f"{PATH}?dryRun=All", fields, BODY)
                    assert found == status, body


@both_protocols
async def test_one_valid_token_of_two_does_not_authenticate(protocol: str) -> None:

    async with shared() as api:
        for tokens in ((ADMIN, "wrong"), ("wrong", ADMIN)):
            fields = [("authorization", f"Bearer {token}") for token in tokens]
            status, _ = await send(api, protocol, "GET", PATH, fields)
            assert status == 401
