"""A recording with values of Secrets shows those that were replaced only to who may `rewind` secrets."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from trio.testing import MockClock

from tests.actors.object_store import memory_folder
from tests.api.access.test_access_to_the_past import RBAC
from tests.gateway.api import ALICE, Api, served
from tests.recording.flight.flying import flying

SECRETS = "/api/v1/namespaces/default/secrets"
OLD, NEW = (base64.b64encode(text).decode() for text in (b"the old value", b"the new value"))


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


async def let_alice(api: Api, *verbs: str) -> None:
    path = f"/apis/{RBAC}/v1/namespaces/default"
    name = "-".join(verbs)
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": list(verbs)}]
    binding = {
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": RBAC}],
        "roleRef": {"kind": "Role", "name": name, "apiGroup": RBAC},
    }
    for resource, body in (("roles", {"rules": rules}), ("rolebindings", binding)):
        (await api.ask("POST", f"{path}/{resource}", {"metadata": {"name": name}, **body})).expect(201)


@pytest.mark.parametrize("rewinds", [False, True])
async def test_replaced_values_need_the_right_to_rewind(
    folder: Path, autojump_clock: MockClock, rewinds: bool
) -> None:
    async with served() as api, flying(api, folder, with_secrets=True) as one:
        await one.begun()
        await let_alice(api, "get", "list", "watch", *(["rewind"] if rewinds else []))
        await api.create("secrets", {"metadata": {"name": "first"}, "data": {"key": "eA=="}})
        made = await api.create("secrets", {"metadata": {"name": "token"}, "data": {"key": OLD}})
        version = int(made["metadata"]["resourceVersion"])
        await api.replace("secrets", {"metadata": {"name": "token"}, "data": {"key": NEW}})
        await one.caught_up()
        api.clock.advance(900)
        token = orjson.dumps({"v": version, "t": api.clock.now(), "n": "default", "a": "a", "r": -1})
        of_history = (
            f"{SECRETS}?at={version}",
            f"{SECRETS}/token?at={version}",
            "/apis/rewound.cluster.io/v1/namespaces/default/secrets/token/history",
            "/apis/rewound.cluster.io/v1/timeline/events?namespace=default&type=secrets&contents=true",
        )
        for path in of_history:
            response = await one.api.ask("GET", path, token=ALICE)
            assert (OLD in response.text) is rewinds, path
        for path in (
            f"{SECRETS}?resourceVersion={version}&resourceVersionMatch=Exact",
            f"{SECRETS}?resourceVersion={version}&limit=10",
            f"{SECRETS}?limit=10&continue={base64.urlsafe_b64encode(token).decode().rstrip('=')}",
            f"{SECRETS}?watch=1&timeoutSeconds=1&resourceVersion={version - 1}",
            f"/api/v1/watch/namespaces/default/secrets?timeoutSeconds=1&resourceVersion={version - 1}",
        ):
            response = await one.api.ask("GET", path, token=ALICE)
            assert OLD not in response.text and "too old" in response.text, path
        # What is there now needs no such right.
        assert NEW in (await one.api.ask("GET", SECRETS, token=ALICE)).text
        assert NEW in (await one.api.ask("GET", f"{SECRETS}?watch=1&timeoutSeconds=1", token=ALICE)).text
