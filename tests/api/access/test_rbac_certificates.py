"""The two roles of certificate requests: one to create and read them, one to approve those of some signers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.access.authorization.policies import binding, role, rule, user
from tests.actors.certificates.making_requests import Wanted
from tests.gateway.api import ADMIN, ALICE, Api, served

GROUP = "certificates.cluster.io"
PATH = f"/apis/{GROUP}/v1/certificatesigningrequests"
READS = "get list watch"
SIGNER = "example.com/one"


async def grant(api: Api, *rules: dict[str, Any]) -> None:
    await api.create("clusterroles", role("r", *rules))
    await api.create("clusterrolebindings", binding("b", "r", user("alice")))


async def create(api: Api, token: str) -> int:
    spec = {"request": Wanted((("CN", "alice"),)).encoded(), "signerName": SIGNER, "usages": ["client auth"]}
    return (await api.ask("POST", PATH, {"metadata": {"name": "c"}, "spec": spec}, token=token)).status


async def reads(api: Api) -> list[int]:
    """Get, list, and a watch from a version that does not exist: 400 where it is allowed."""
    paths = (f"{PATH}/c", PATH, f"{PATH}?watch=1&resourceVersion=x")
    return [(await api.ask("GET", path, token=ALICE)).status for path in paths]


async def approve(api: Api) -> int:
    request = (await api.ask("GET", f"{PATH}/c")).expect(200)
    condition = {"type": "Approved", "status": "True", "reason": "Because", "message": "by hand"}
    request["status"] = {"conditions": [condition]}
    return (await api.ask("PUT", f"{PATH}/c/approval", request, token=ALICE)).status


async def test_create_and_read_requests() -> None:
    async with served() as api:
        assert await create(api, ALICE) == 403 and await reads(api) == [403, 403, 403]
        await grant(api, rule(f"create {READS}", "certificatesigningrequests", GROUP))
        assert await create(api, ALICE) == 201 and await reads(api) == [200, 200, 400]
        assert await approve(api) == 403


@pytest.mark.parametrize("names", [SIGNER, "example.com/*"])
async def test_approve_requests_of_a_signer_or_of_its_domain(names: str) -> None:
    async with served() as api:
        assert await create(api, ADMIN) == 201
        await grant(
            api,
            rule(READS, "certificatesigningrequests", GROUP),
            rule("update", "certificatesigningrequests/approval", GROUP),
            rule("approve", "signers", GROUP, names=names),
        )
        assert await reads(api) == [200, 200, 400] and await approve(api) == 200


@pytest.mark.parametrize(
    "rules",
    [
        [rule("update", "certificatesigningrequests", GROUP), rule("approve", "signers", GROUP)],
        [rule("update", "certificatesigningrequests/approval", GROUP)],
        [
            rule("update", "certificatesigningrequests/approval", GROUP),
            rule("approve", "signers", GROUP, names="example.com/two example.org/*"),
        ],
    ],
)
async def test_approving_needs_both_rights(rules: list[dict[str, Any]]) -> None:
    async with served() as api:
        assert await create(api, ADMIN) == 201
        await grant(api, *rules)
        assert await approve(api) == 403
