"""A replay never contacts the recorded cluster, and stores nothing."""

from __future__ import annotations

from pathlib import Path

from rewound.recording.replay.player import Moment
from rewound.recording.replay.writable import WritablePlan
from tests.api.custom.kinds import GROUP, WIDGETS, define, definition, version, widget
from tests.gateway.api import Api, config_map
from tests.recording.replay.replaying import forked, recorded, replayed

NOWHERE = "https://127.0.0.1:9/"  # nothing listens there: a call would fail


async def test_reviews_call_no_recorded_webhooks(tmp_path: Path) -> None:
    async with recorded(tmp_path) as api:
        hook = {
            "name": "all.example.com",
            "clientConfig": {"url": NOWHERE},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "rules": [
                {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]},
            ],
        }
        path = api.path("validatingwebhookconfigurations", None)
        await api.ask("POST", path, {"metadata": {"name": "all"}, "webhooks": [hook]})
    async with replayed(tmp_path) as replay:
        review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "configmaps"}}}
        path = api.path("selfsubjectaccessreviews")
        assert (await replay.api.ask("POST", path, review)).expect(201)["status"]["allowed"] is True


async def test_custom_kinds_with_names_of_reviews_are_not_written(tmp_path: Path) -> None:
    async with recorded(tmp_path) as api:
        await define(api, definition(plural="tokenreviews", kind="TokenReview"))
    async with replayed(tmp_path) as replay:
        path = f"/apis/{GROUP}/v1/namespaces/default/tokenreviews"
        body = {"apiVersion": f"{GROUP}/v1", "kind": "TokenReview", "metadata": {"name": "a"}}
        message = await replay.api.refuse("POST", path, body, 403)
        assert "only reads it" in message


async def record_conversion(folder: Path) -> int:
    """A widget, stored in v1, of a kind that only a webhook converts to v2; the newest version."""
    async with recorded(folder) as api:
        declared = definition(version("v1"), version("v2", storage=False))
        webhook = {"clientConfig": {"url": NOWHERE}, "conversionReviewVersions": ["v1"]}
        declared["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        await define(api, declared)
        (await api.ask("POST", WIDGETS, widget("w"))).expect(201)
        return int(await api.head())


async def refuse_conversion(api: Api) -> None:
    assert (await api.ask("GET", f"{WIDGETS}/w")).expect(200)["spec"] == {"size": 1}
    message = await api.refuse("GET", f"/apis/{GROUP}/v2/namespaces/default/widgets/w", b"", 500)
    assert message.endswith("this server replays a journal and calls no webhooks of the recorded cluster")


async def test_conversion_webhooks_are_not_called(tmp_path: Path) -> None:
    await record_conversion(tmp_path)
    async with replayed(tmp_path) as replay:
        await refuse_conversion(replay.api)


async def test_copy_contacts_neither_webhooks_nor_nodes(tmp_path: Path) -> None:
    head = await record_conversion(tmp_path)
    async with forked(tmp_path, WritablePlan(Moment(head, 0), head)) as api:
        await refuse_conversion(api)
        for path in ("/api/v1/nodes/n/proxy/pods", "/api/v1/namespaces/default/pods/p/log"):
            assert "its pods, services and nodes do not run" in await api.refuse("GET", path, b"", 403)
        await api.create("configmaps", config_map("a"))
