"""A review has the object as it is at that moment, with everything that the server has added so far."""

from __future__ import annotations

from typing import Any

from tests.api.custom.kinds import WIDGETS, define, definition, version, widget
from tests.api.webhooks.hooking import MAPS, Hooks, hooking

DEFAULT = "/api/v1/namespaces/default"
EVERYTHING = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
CONTAINERS = [{"name": "c", "image": "i"}]
LABELS = {"app": "web"}


async def record(hooks: Hooks, *kinds: str) -> None:
    for kind in kinds or ("mutating", "validating"):
        await hooks.configure(kind, hooks.hook(f"{kind}.example.com", f"/{kind}", rules=[EVERYTHING]))


def reviewed(hooks: Hooks, kind: str) -> dict[str, Any]:
    """The request of the last review that the webhooks of a configuration kind got."""
    found = [one for one in hooks.peer.received if one.target.startswith(f"/{kind}")]
    return found[-1].document["request"]  # type: ignore[no-any-return]


def owners(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    entries = found["metadata"].get("managedFields", ())
    return [(one["manager"], one["operation"], one.get("subresource"), one["fieldsV1"]) for one in entries]


async def test_new_claims_and_volumes_have_no_phase_yet() -> None:
    modes = {"accessModes": ["ReadWriteOnce"]}
    volume = {**modes, "capacity": {"storage": "1"}, "hostPath": {"path": "/a"}}
    claim = {**modes, "resources": {"requests": {"storage": "1"}}}
    async with hooking() as hooks:
        await record(hooks)
        for plural, spec in (("persistentvolumes", volume), ("persistentvolumeclaims", claim)):
            made = await hooks.api.create(plural, {"metadata": {"name": "a"}, "spec": spec})
            assert reviewed(hooks, "validating")["object"]["status"] == {}, plural
            assert made["status"] == {"phase": "Pending"}, plural


async def test_scale_is_reviewed_as_it_will_be() -> None:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}}
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
    async with hooking() as hooks:
        made = await hooks.api.create("deployments", {"metadata": {"name": "a"}, "spec": spec})
        await record(hooks)
        path = "/apis/apps/v1/namespaces/default/deployments/a/scale"
        sent = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"replicas": 3}}
        (await hooks.api.ask("PUT", path, sent)).expect(200)
        before, after = (reviewed(hooks, "validating")[name] for name in ("oldObject", "object"))
        assert after["metadata"] == before["metadata"], "uid and creationTimestamp"
        assert after["metadata"]["uid"] == made["metadata"]["uid"]
        assert after["spec"] == {"replicas": 3}
        assert after["status"] == {"replicas": 0, "selector": "app=web"}


async def test_scale_of_a_custom_object_is_reviewed_as_it_will_be() -> None:
    replicas = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    scale = {**replicas, "labelSelectorPath": ".status.selector"}
    async with hooking() as hooks:
        await define(hooks.api, definition(version(subresources={"scale": scale})))
        made = widget("a", status={"size": 2, "selector": "a=b"})
        (await hooks.api.ask("POST", WIDGETS, made)).expect(201)
        await record(hooks)
        sent = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"replicas": 3}}
        (await hooks.api.ask("PUT", f"{WIDGETS}/a/scale", sent)).expect(200)
        after = reviewed(hooks, "validating")["object"]
        assert after["metadata"].keys() >= {"uid", "creationTimestamp", "resourceVersion"}
        assert (after["spec"], after["status"]) == ({"replicas": 3}, {"replicas": 2, "selector": "a=b"})


async def test_new_custom_object_has_no_creation_timestamp_before_it_is_prepared() -> None:
    async with hooking() as hooks:
        await define(hooks.api, definition())
        await record(hooks)
        (await hooks.api.ask("POST", WIDGETS, widget("a"))).expect(201)
        assert "creationTimestamp" not in reviewed(hooks, "mutating")["object"]["metadata"]
        assert reviewed(hooks, "validating")["object"]["metadata"]["creationTimestamp"]
        await hooks.api.create("configmaps", {"metadata": {"name": "a"}})
        assert reviewed(hooks, "mutating")["object"]["metadata"]["creationTimestamp"] is None


async def test_evictions_and_bindings_say_who_sent_which_fields() -> None:
    eviction = {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 3}}
    target = {"kind": "Node", "name": "n"}
    binding = {"metadata": {"name": "p", "annotations": {"a": "b"}}, "target": target}
    bound = {"f:metadata": {"f:annotations": {".": {}, "f:a": {}}}, "f:target": {}}
    evicted = {"f:deleteOptions": {".": {}, "f:gracePeriodSeconds": {}}}
    async with hooking() as hooks:
        await hooks.api.create("pods", {"metadata": {"name": "p"}, "spec": {"containers": CONTAINERS}})
        await record(hooks)
        for path, body, subresource, fields in (
            ("pods/p/binding", binding, "binding", bound),
            ("bindings", binding, None, bound),
            ("pods/p/eviction", eviction, "eviction", evicted),
        ):
            query = "?dryRun=All&fieldManager=me"
            (await hooks.api.ask("POST", f"{DEFAULT}/{path}{query}", body)).expect(201)
            for kind in ("mutating", "validating"):
                found = owners(reviewed(hooks, kind)["object"])
                assert found == [("me", "Update", subresource, fields)], (path, kind)


async def test_options_of_a_dry_run_eviction_say_so_to_validating_webhooks() -> None:
    async with hooking() as hooks:
        await hooks.api.create("pods", {"metadata": {"name": "p"}, "spec": {"containers": CONTAINERS}})
        await record(hooks)
        for sent, validated in (
            ({"gracePeriodSeconds": 3}, {"gracePeriodSeconds": 3, "dryRun": ["All"]}),
            ({"dryRun": ["All"]}, {"dryRun": ["All"]}),
            (None, None),
        ):
            body = {"metadata": {"name": "p"}, **({"deleteOptions": sent} if sent else {})}
            (await hooks.api.ask("POST", f"{DEFAULT}/pods/p/eviction?dryRun=All", body)).expect(201)
            assert reviewed(hooks, "mutating")["object"].get("deleteOptions") == sent
            assert reviewed(hooks, "validating")["object"].get("deleteOptions") == validated
        (await hooks.api.ask("GET", f"{DEFAULT}/pods/p")).expect(200)


async def test_name_of_an_eviction_is_compared_after_mutating_webhooks() -> None:
    async with hooking() as hooks:
        await record(hooks)
        refused = await hooks.api.ask("POST", f"{DEFAULT}/pods/p/eviction", {"metadata": {"name": "q"}})
        assert "name in URL does not match" in refused.expect(400)["message"]
        assert hooks.called() == ["/mutating"]


async def test_uid_is_a_precondition_of_deleting_namespaces_and_definitions() -> None:
    async with hooking() as hooks:
        namespace = await hooks.api.create("namespaces", {"metadata": {"name": "a"}})
        defined = await define(hooks.api, definition())
        config_map = await hooks.api.create("configmaps", {"metadata": {"name": "a"}})
        await record(hooks)
        for made, plural, found in (
            (namespace, "namespaces", {"uid": namespace["metadata"]["uid"]}),
            (defined, "customresourcedefinitions", {"uid": defined["metadata"]["uid"]}),
            (config_map, "configmaps", None),
        ):
            scope = "default" if plural == "configmaps" else None
            path = f"{hooks.api.path(plural, scope)}/{made['metadata']['name']}?dryRun=All"
            (await hooks.api.ask("DELETE", path)).expect(200)
            for kind in ("mutating", "validating"):
                assert reviewed(hooks, kind)["options"].get("preconditions") == found, (plural, kind)


async def test_webhook_may_echo_the_review_of_a_large_object() -> None:
    """Some webhooks respond with the review that they got, changed."""
    async with hooking(echo=lambda request: {"echoed": request}) as hooks:
        await hooks.configure("mutating", hooks.hook("a.example.com", "/echo"))
        data = {"k": "x" * 600_000}
        for _ in range(2):
            body = {"metadata": {"name": "a"}, "data": data}
            (await hooks.api.ask("POST", MAPS, body)).expect(201)
            data = {"k": "y" * 600_000}
            (await hooks.api.ask("PUT", f"{MAPS}/a", {**body, "data": data})).expect(200)
            (await hooks.api.ask("DELETE", f"{MAPS}/a")).expect(200)
