"""GET timeline/suspects: what changed before an object broke, with the rights of the caller."""

from __future__ import annotations

from typing import Any

from tests.browser.journal_page import patch
from tests.gateway.api import ALICE, Api, config_map, served
from tests.rewind.test_at import allow

SUSPECTS = "/apis/rewound.cluster.io/v1/timeline/suspects"
POD = f"{SUSPECTS}?type=pods&namespace=default&name=web"


async def incident(api: Api) -> None:
    """A pod that stops when its Secret changes, and its ConfigMap before that."""
    await api.create("secrets", {"metadata": {"name": "token"}, "stringData": {"key": "hunter2"}})
    await api.create("configmaps", config_map("settings", color="blue"))
    reads = [{"secretRef": {"name": "token"}}, {"configMapRef": {"name": "settings"}}]
    spec = {"containers": [{"name": "main", "image": "web:1", "envFrom": reads}]}
    await api.create("pods", {"metadata": {"name": "web"}, "spec": spec})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await patch(api, f"{api.path('pods', name='web')}/status", {"status": ready})
    api.clock.advance(600)
    await patch(api, api.path("configmaps", name="settings"), {"data": {"color": "bleu"}})
    api.clock.advance(600)
    await patch(api, api.path("secrets", name="token"), {"stringData": {"key": "swordfish"}})
    api.clock.advance(10)
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
    container = {"name": "main", "image": "web:1", "imageID": "", "ready": False, "restartCount": 3}
    status = {"containerStatuses": [{**container, "state": {"waiting": waiting}}]}
    await patch(api, f"{api.path('pods', name='web')}/status", {"status": status})


async def suspects(api: Api, query: str = "", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await api.ask("GET", f"{POD}{query}", **more)).expect(200)
    return found


def names(found: dict[str, Any]) -> list[str]:
    return [f"{one['type']} {one['name']}" for one in found["items"]]


async def test_changes_before_the_failure_with_reasons_and_without_secret_values() -> None:
    async with served() as api:
        await incident(api)
        found = await suspects(api)
        assert (found["broke"]["phase"], found["broke"]["before"]) == ("CrashLoopBackOff", "Running")
        assert names(found)[:2] == ["secrets token", "configmaps settings"]
        first, second = found["items"][:2]
        assert first["user"] == "admin" and first["relation"] == "pod web reads it"
        assert (
            "right before it broke" in first["reasons"] and "10 minutes before it broke" in second["reasons"]
        )
        assert second["summary"]["changes"] == [{"field": "data.color", "old": "blue", "new": "bleu"}]
        assert "hunter2" not in str(found) and "swordfish" not in str(found)
        # Only what changed since then; and as it was before the failure.
        assert "configmaps settings" not in names(await suspects(api, f"&since={int(second['version'])}"))
        before = await suspects(api, f"&at={int(first['version']) - 1}")
        assert (before["broken"], names(before)[0]) == (False, "configmaps settings")


async def test_what_the_caller_may_not_list_is_not_there() -> None:
    async with served() as api:
        await incident(api)
        assert (await api.ask("GET", POD, token=ALICE)).status == 403
        await allow(api, {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]})
        found = await suspects(api, token=ALICE)
        assert found["broke"]["phase"] == "CrashLoopBackOff"
        assert not [one for one in names(found) if not one.startswith("pods")]
        assert not any("user" in one for one in found["items"])
        assert "secrets of namespace default: you may not list them" in found["leftOut"]
        await allow(
            api, {"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["list"]}, name="more"
        )
        assert names(await suspects(api, token=ALICE))[0] == "configmaps settings"
        # Not Secrets with `list` alone: their past needs the verb `rewind` too.
        await allow(api, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}, name="secrets")
        assert "secrets token" not in names(await suspects(api, token=ALICE))


async def test_parameters_that_are_wrong() -> None:
    async with served() as api:
        await incident(api)
        for query, code in (
            ("type=pods&namespace=default", 400),
            ("type=pods&name=web", 400),
            ("type=nodes&namespace=default&name=web", 400),
            ("type=starships&namespace=default&name=web", 400),
            ("type=pods&namespace=default&name=web&since=soon", 400),
            ("type=pods&namespace=default&name=web&since=99999", 400),
            ("type=pods&namespace=default&name=web&since=5&at=4", 400),
            ("type=pods&namespace=default&name=other", 404),
            ("type=jobs&namespace=default&name=never", 404),
            (f"type=pods&namespace=default&name={'x' * 3000}", 404),
            ("type=pods&namespace=default&name=a%00b", 404),
        ):
            assert (query, (await api.ask("GET", f"{SUSPECTS}?{query}")).status) == (query, code)
        assert (await api.ask("POST", SUSPECTS)).status == 405
