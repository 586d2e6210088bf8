"""Current rights decide about history: a user who may not read a resource now cannot read its old versions either.

A watch that is open when a right is revoked continues to its end, as in Kubernetes: rights are checked when it opens.
"""

from __future__ import annotations

from urllib.parse import quote

from tests.gateway.api import ALICE, Api, config_map, served
from tests.gateway.watch.watching import watching

PATH = "/api/v1/namespaces/default/configmaps"
RBAC = "rbac.authorization.cluster.io"


async def grant(api: Api, *verbs: str) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": list(verbs)}
    await api.create("roles", {"metadata": {"name": "reader"}, "rules": [rule]})
    subject = {"apiGroup": RBAC, "kind": "User", "name": "alice"}
    role = {"apiGroup": RBAC, "kind": "Role", "name": "reader"}
    await api.create("rolebindings", {"metadata": {"name": "alice"}, "subjects": [subject], "roleRef": role})


async def revoke(api: Api) -> None:
    await api.delete("rolebindings", "alice")


async def test_history_is_readable_only_with_a_current_right() -> None:
    async with served() as api:
        await grant(api, "get", "list", "watch")
        first = await api.create("configmaps", config_map("a", secret="old"))
        await api.create("configmaps", config_map("b"))
        old = first["metadata"]["resourceVersion"]
        page = (await api.ask("GET", PATH, token=ALICE, limit=1)).expect(200)
        token = quote(page["metadata"]["continue"], safe="")
        past = [
            f"{PATH}/a?resourceVersion={old}",
            f"{PATH}/a?resourceVersion=0",
            f"{PATH}?resourceVersion={old}&resourceVersionMatch=Exact",
            f"{PATH}?resourceVersion={old}&resourceVersionMatch=NotOlderThan",
            f"{PATH}?limit=1&continue={token}",
            f"{PATH}?watch=1&resourceVersion={old}&timeoutSeconds=1",
            f"/api/v1/watch/namespaces/default/configmaps?resourceVersion={old}&timeoutSeconds=1",
            f"/api/v1/watch/namespaces/default/configmaps/a?resourceVersion={old}&timeoutSeconds=1",
        ]
        for path in past[:5]:
            assert (await api.ask("GET", path, token=ALICE)).status == 200, path
        await revoke(api)
        for path in past:
            refused = await api.ask("GET", path, token=ALICE)
            assert refused.status == 403, path
            assert "old" not in refused.text


async def test_right_to_get_does_not_allow_listing_history() -> None:
    async with served() as api:
        await grant(api, "get")
        old = (await api.create("configmaps", config_map("a")))["metadata"]["resourceVersion"]
        for query in (
            f"?resourceVersion={old}&resourceVersionMatch=Exact",
            f"?watch=1&resourceVersion={old}",
        ):
            assert (await api.ask("GET", PATH + query, token=ALICE)).status == 403
        assert (await api.ask("GET", f"{PATH}/a", token=ALICE)).status == 200


async def test_a_continue_token_of_another_user_gives_no_right() -> None:
    async with served() as api:
        for name in ("a", "b"):
            await api.create("configmaps", config_map(name))
        page = await api.list("configmaps", limit=1)
        refused = await api.ask(
            "GET", PATH, token=ALICE, limit=1, **{"continue": page["metadata"]["continue"]}
        )
        assert refused.status == 403


async def test_an_open_watch_ends_when_its_right_is_revoked_and_a_new_one_is_refused() -> None:
    async with served() as api:
        await grant(api, "watch")
        async with watching(api, PATH, token=ALICE) as watch, watching(api, PATH) as other:
            await api.create("configmaps", config_map("before"))
            assert await watch.types_and_names(1) == [("ADDED", "before")]
            assert await other.types_and_names(1) == [("ADDED", "before")]
            await revoke(api)
            assert await watch.end() == []
            await api.create("configmaps", config_map("after"))
            assert await other.types_and_names(1) == [("ADDED", "after")]
        async with watching(api, PATH, token=ALICE) as watch:
            assert watch.status == 403


async def test_a_right_holds_from_the_first_request_after_the_reply() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        for _ in range(5):
            assert (await api.ask("GET", f"{PATH}/a", token=ALICE)).status == 403
            await grant(api, "get")
            assert (await api.ask("GET", f"{PATH}/a", token=ALICE)).status == 200
            await revoke(api)
            assert (await api.ask("GET", f"{PATH}/a", token=ALICE)).status == 403
            await api.delete("roles", "reader")
