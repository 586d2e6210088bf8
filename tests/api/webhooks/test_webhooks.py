"""Admission webhooks: order, reinvocation, versions, selectors, dry run, warnings, metrics, audit annotations."""

from __future__ import annotations

import base64
from functools import partial
from typing import Any

import orjson
import pytest
import trio
from msgspec.structs import replace

from rewound.actors.access.authorization.chain import AlwaysAllow
from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.rbac.policy import stored_policy
from rewound.actors.admission.context import PluginContext
from rewound.actors.admission.policies.webhook_conditions import conditions_met
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.admission.timings import CALLING, INTERNAL
from rewound.actors.admission.webhooks.candidates import Match
from rewound.actors.admission.webhooks.hook import hooks_of
from rewound.actors.admission.webhooks.plugins import webhook_plugins
from rewound.actors.errors import BadRequest, WebhookFailed
from rewound.actors.names import CLUSTER
from rewound.gateway.settings.settings import AuditSettings
from tests.actors.object_store import memory_folder, open_store
from tests.api.webhooks.hooking import CONFIG_MAPS, DENY, MAPS, adding, hooking
from tests.gateway.outgoing.https_peer import Reply, pki


async def test_changed_configuration_is_in_force_with_the_next_request() -> None:
    async with hooking(deny={**DENY, "status": {"code": 418, "message": "no tea"}}) as hooks:
        for _ in range(3):
            await hooks.configure("validating", hooks.hook("a.example.com", "/deny"))
            refused = (await hooks.create("a")).expect(418)
            assert refused["message"] == 'admission webhook "a.example.com" denied the request: no tea'
            await hooks.remove("validating")
            (await hooks.create("a", dryRun="All")).expect(201)
        await hooks.configure("validating", hooks.hook("a.example.com", "/deny"))
        await hooks.api.restart()
        (await hooks.create("a")).expect(418)


async def test_statuses_of_denials() -> None:
    status: dict[str, Any] = {}
    async with hooking(deny=lambda _: {**DENY, "status": status}) as hooks:
        await hooks.configure("validating", hooks.hook("a.example.com", "/deny"))
        for sent, code, text in (
            ({"code": 200}, 400, "denied the request without explanation"),
            ({"code": 2000}, 500, "denied the request without explanation"),
            ({"reason": "Because"}, 400, "denied the request: Because"),
            (
                {"code": 409, "details": {"kind": "x", "name": 7, "other": 1, "causes": [1]}},
                409,
                "denied the request without explanation",
            ),
        ):
            status = sent
            refused = (await hooks.create("a")).expect(code)
            assert refused["message"] == f'admission webhook "a.example.com" {text}'
            assert refused.get("reason", "") == sent.get("reason", "")
            assert refused.get("details") == ({"kind": "x", "causes": []} if "details" in sent else None)
        metrics = (await hooks.api.ask("GET", "/metrics")).text
        assert (
            'apiserver_admission_webhook_rejection_count{error_type="no_error",name="a.example.com",'
            'operation="CREATE",rejection_code="409",type="validating"} 1'
        ) in metrics


async def test_mutating_webhooks_run_by_name_and_again_if_needed() -> None:
    async with hooking(
        first=adding("/metadata/labels", {"first": "1"}), second=adding("/data/second", "1")
    ) as hooks:
        await hooks.configure("mutating", hooks.hook("b.example.com", "/second"), name="z")
        again = hooks.hook("a.example.com", "/first", reinvocationPolicy="IfNeeded")
        await hooks.configure("mutating", again, name="a")
        await hooks.configure("validating", hooks.hook("v.example.com", "/check"))
        made = (await hooks.create("a")).expect(201)
        assert made["data"] == {"k": "v", "second": "1"}
        assert made["metadata"]["labels"] == {"first": "1"}
        seen = [(one["operation"], one["object"]["data"]) for one in hooks.requests]
        assert seen[-1] == ("CREATE", made["data"])
        assert hooks.requests[-1]["object"]["metadata"]["uid"] == made["metadata"]["uid"]
        assert len({one["uid"] for one in hooks.requests}) == 4, "each call has its own"
        assert hooks.called() == ["/first", "/second", "/first", "/check"]


async def test_webhook_is_not_asked_again_for_its_own_change() -> None:
    async with hooking(first=adding("/data/first", "1")) as hooks:
        again = hooks.hook("a.example.com", "/first", reinvocationPolicy="IfNeeded")
        await hooks.configure("mutating", again, hooks.hook("b.example.com", "/allow"))
        (await hooks.create("a")).expect(201)
        assert hooks.called() == ["/first", "/allow"]


async def test_object_selector_sees_what_earlier_webhooks_changed() -> None:
    async with hooking(label=adding("/metadata/labels", {"on": "1"})) as hooks:
        selected = {"objectSelector": {"matchLabels": {"on": "1"}}}
        await hooks.configure(
            "mutating",
            hooks.hook("a.example.com", "/early", **selected),
            hooks.hook("b.example.com", "/label"),
            hooks.hook("c.example.com", "/late", **selected),
        )
        (await hooks.create("a")).expect(201)
        assert hooks.called() == ["/label", "/late"], (
            "the first one is not asked for the first time in round 1"
        )
        absent = {"objectSelector": {"matchExpressions": [{"key": "on", "operator": "DoesNotExist"}]}}
        await hooks.configure("validating", hooks.hook("v.example.com", "/absent", **absent))
        await hooks.remove("mutating")
        (await hooks.create("b")).expect(201)
        assert hooks.called() == ["/absent"]
        (await hooks.api.ask("DELETE", f"{MAPS}/b")).expect(200)
        assert hooks.called() == ["/absent"], "the old object decides"


async def test_scopes_namespaces_and_configurations() -> None:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    selector = {"matchLabels": {"hook": "on"}}
    async with hooking() as hooks:
        await hooks.configure(
            "validating",
            hooks.hook("a.example.com", "/all", rules=[everything], namespaceSelector=selector),
        )
        assert hooks.called() == [], "no webhook sees webhook configurations"
        await hooks.remove("validating")
        await hooks.configure(
            "validating",
            hooks.hook("a.example.com", "/all", rules=[everything], namespaceSelector=selector),
        )
        (await hooks.create("a")).expect(201)
        assert hooks.called() == []
        path = "/api/v1/namespaces/default"
        labels = {"metadata": {"labels": {"hook": "on"}}}
        merge = {"content-type": "application/merge-patch+json"}
        (await hooks.api.ask("PATCH", path, labels, headers=merge)).expect(200)
        [request] = hooks.requests
        assert (request["namespace"], request["name"], request["operation"]) == (
            "default",
            "default",
            "UPDATE",
        )
        assert hooks.called() == ["/all"], "its own labels, those that it gets"
        (await hooks.create("b")).expect(201)
        assert hooks.called() == ["/all"]
        role = {"metadata": {"name": "r"}, "rules": []}
        (await hooks.api.ask("POST", hooks.api.path("clusterroles", None), role)).expect(201)
        assert "/all" in hooks.called(), "the selector has no effect on other objects without a namespace"
        made = {"metadata": {"name": "made", **labels["metadata"]}}
        (await hooks.api.ask("POST", "/api/v1/namespaces", made)).expect(201)
        reviewed = [one for one in hooks.requests if one["kind"]["kind"] == "Namespace"][-1]
        assert (reviewed["operation"], reviewed["namespace"]) == ("CREATE", "made")


async def test_equivalent_events_are_converted_across_groups() -> None:
    rules = [{**CONFIG_MAPS, "resources": ["events"]}]
    async with hooking(patch=adding("/metadata/labels", {"by": "hook"})) as hooks:
        await hooks.configure(
            "mutating",
            hooks.hook("a.example.com", "/exact", rules=rules, matchPolicy="Exact"),
            hooks.hook("b.example.com", "/patch", rules=rules),
        )
        event = {
            "metadata": {"name": "e", "namespace": "default"},
            "eventTime": "2020-01-01T00:00:00.000000Z",
            "reportingController": "test.example.com/one",
            "reportingInstance": "one",
            "action": "Test",
            "reason": "Testing",
            "type": "Normal",
            "regarding": {"kind": "ConfigMap", "name": "a", "namespace": "default"},
            "note": "text",
        }
        path = "/apis/events.cluster.io/v1/namespaces/default/events"
        made = (await hooks.api.ask("POST", path, event)).expect(201)
        assert (made["metadata"]["labels"], made["note"]) == ({"by": "hook"}, "text")
        [request] = hooks.requests
        assert request["kind"] == {"group": "", "version": "v1", "kind": "Event"}
        assert request["requestKind"] == {"group": "events.cluster.io", "version": "v1", "kind": "Event"}
        assert request["requestResource"]["group"] == "events.cluster.io"
        assert (request["object"]["apiVersion"], request["object"]["message"]) == ("v1", "text")


async def test_dry_run_options_and_warnings() -> None:
    async with hooking(warn={"warnings": ["careful"]}) as hooks:
        await hooks.configure("validating", hooks.hook("a.example.com", "/warn"))
        made = await hooks.create("a", dryRun="All", fieldManager="me", fieldValidation="Strict")
        made.expect(201)
        assert made.warnings == ['299 - "careful"']
        [request] = hooks.requests
        assert request["dryRun"] is True
        assert request["options"] == {
            "kind": "CreateOptions",
            "apiVersion": "meta.cluster.io/v1",
            "dryRun": ["All"],
            "fieldManager": "me",
            "fieldValidation": "Strict",
        }
        (await hooks.create("a")).expect(201)
        deleted = await hooks.api.ask("DELETE", f"{MAPS}/a", {"preconditions": {"uid": "none"}})
        assert deleted.status == 409
        deleted = await hooks.api.ask("DELETE", f"{MAPS}/a", {"orphanDependents": True})
        assert hooks.requests[-1]["options"] == {
            "kind": "DeleteOptions",
            "apiVersion": "meta.cluster.io/v1",
            "orphanDependents": True,
        }
        assert deleted.warnings == ['299 - "careful"']


async def test_refused_write_has_the_warnings_of_all_webhooks() -> None:
    async with hooking(
        early={"warnings": ["early"]},
        warn={"warnings": ["careful"]},
        deny={**DENY, "warnings": ["really"]},
    ) as hooks:
        await hooks.configure("mutating", hooks.hook("a.example.com", "/early"))
        both = hooks.hook("b.example.com", "/deny"), hooks.hook("c.example.com", "/warn")
        await hooks.configure("validating", *both)
        refused = await hooks.create("a")
        assert refused.status == 400
        assert refused.warnings == ['299 - "early"', '299 - "really"', '299 - "careful"']
        await hooks.configure("mutating", hooks.hook("d.example.com", "/deny"), name="z")
        assert (await hooks.create("a")).warnings == ['299 - "early"', '299 - "really"']


async def test_validating_webhooks_are_called_at_the_same_time_and_each_can_refuse() -> None:
    """Each webhook responds only after the other was called."""
    called = {"first": trio.Event(), "second": trio.Event()}

    async def first(_: dict[str, Any]) -> dict[str, Any]:
        called["first"].set()
        await called["second"].wait()
        return {}

    async def second(_: dict[str, Any]) -> dict[str, Any]:
        called["second"].set()
        await called["first"].wait()
        return DENY

    async with hooking(first=first, second=second) as hooks:
        await hooks.configure(
            "validating", hooks.hook("a.example.com", "/first"), hooks.hook("b.example.com", "/second")
        )
        refused = (await hooks.create("a")).expect(400)
        assert 'admission webhook "b.example.com" denied the request' in refused["message"]


async def test_webhook_that_writes_to_the_server() -> None:
    async with hooking() as hooks:

        async def write(request: dict[str, Any]) -> dict[str, Any]:
            if request["name"] == "outer":
                (await hooks.create("inner")).expect(201)
            return {}

        async with hooking(write=write) as writing:
            clients = writing.hook("a.example.com", "/write")
            await hooks.configure("mutating", clients)
            (await hooks.create("outer")).expect(201)
            assert [one["name"] for one in writing.requests] == ["outer", "inner"]


@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_configuration_that_changes_during_a_request(kind: str) -> None:
    """A request continues with the webhooks that it started with; the next request uses the new ones."""
    async with hooking() as hooks:

        async def change(request: dict[str, Any]) -> dict[str, Any]:
            if request["name"] == "a":
                await hooks.remove(kind)
                await hooks.configure(kind, hooks.hook("c.example.com", "/third"))
            return {}

        async with hooking(change=change) as changing:
            first = changing.hook("a.example.com", "/change")
            await hooks.configure(kind, first, hooks.hook("b.example.com", "/second"))
            (await hooks.create("a")).expect(201)
            assert (changing.called(), hooks.called()) == (["/change"], ["/second"])
            (await hooks.create("b")).expect(201)
            assert (changing.called(), hooks.called()) == ([], ["/third"])


async def test_object_that_changes_during_a_review_is_reviewed_again() -> None:
    async with hooking() as hooks:
        merge = {"content-type": "application/merge-patch+json"}

        async def change(request: dict[str, Any]) -> dict[str, Any]:
            if "other" not in request["object"]["data"]:
                path = f"{MAPS}/a"
                patch = {"data": {"other": "1"}}
                (await hooks.api.ask("PATCH", path, patch, headers=merge, token="alice-token")).expect(403)
                (await hooks.api.ask("PATCH", path, patch, headers=merge)).expect(200)
            return {}

        (await hooks.create("a")).expect(201)
        async with hooking(change=change) as changing:
            await hooks.configure("validating", changing.hook("a.example.com", "/change"))
            patch = {"data": {"mine": "1"}}
            made = (await hooks.api.ask("PATCH", f"{MAPS}/a", patch, headers=merge)).expect(200)
            assert made["data"] == {"k": "v", "mine": "1", "other": "1"}


async def test_audit_events_show_what_webhooks_did() -> None:
    policy = "apiVersion: audit.cluster.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n"
    policy += "- {level: Request, resources: [{group: '', resources: [configmaps]}], verbs: [create]}\n"
    policy += "- {level: Metadata, resources: [{group: '', resources: [configmaps]}], verbs: [update]}\n"
    policy += "- {level: None}\n"
    with memory_folder() as folder:
        (folder / "policy.yaml").write_text(policy)
        log = folder / "audit.log"
        audit = AuditSettings(audit_policy_file=folder / "policy.yaml", audit_log_path=str(log))
        patch = {**adding("/data/x", "1"), "auditAnnotations": {"seen": "yes"}}
        async with hooking(changed={"audit": audit}, patch=patch, dead=lambda _: None) as hooks:
            await hooks.configure(
                "mutating",
                hooks.hook("a.example.com", "/allow", rules=[]),
                hooks.hook("b.example.com", "/patch"),
            )
            await hooks.configure("validating", hooks.hook("c.example.com", "/dead", failurePolicy="Ignore"))
            made = (await hooks.create("a")).expect(201)
            (await hooks.api.ask("PUT", f"{MAPS}/a", made)).expect(200)
        created, updated = (orjson.loads(line)["annotations"] for line in log.read_text().splitlines())
    mutation, patch_key = (
        f"{one}.webhook.admission.cluster.io/round_0_index_1" for one in ("mutation", "patch")
    )
    hook = {"configuration": "hooks", "webhook": "b.example.com"}
    assert orjson.loads(created[mutation]) == {**hook, "mutated": True}
    assert orjson.loads(created[patch_key]) == {
        **hook,
        "patch": [{"op": "add", "path": "/data/x", "value": "1"}],
        "patchType": "JSONPatch",
    }
    assert created["b.example.com/seen"] == "yes"
    failed = "failed-open.validating.webhook.admission.cluster.io/round_0_index_0"
    assert created[failed] == updated[failed] == "c.example.com"
    assert orjson.loads(updated[mutation]) == {**hook, "mutated": False}
    assert patch_key not in updated, "patches are for level Request and higher"


async def test_review_in_v1beta1() -> None:
    """Webhooks of that version may omit the type, send any uid, and omit the patch type."""
    response: dict[str, Any] = {}
    async with hooking(old=lambda _: Reply(body=orjson.dumps(response))) as hooks:
        versions = ["v9", "v1beta1", "v1"]
        await hooks.configure(
            "mutating", hooks.hook("a.example.com", "/old", admissionReviewVersions=versions)
        )
        patch = adding("/data/x", "1")["patch"]
        response = {"response": {"allowed": True, "patch": patch}}
        assert (await hooks.create("a")).expect(201)["data"]["x"] == "1"
        assert hooks.peer.received[0].document["apiVersion"] == "admission.cluster.io/v1beta1"
        response = {"response": {"allowed": True, "uid": "another"}}
        (await hooks.create("b")).expect(201)
        response = {"apiVersion": "admission.cluster.io/v1", "response": {"allowed": True}}
        (await hooks.create("c")).expect(500)


async def test_large_objects_are_reviewed_and_patched() -> None:
    """A worker thread handles these."""
    async with hooking(patch=adding("/data/x", "1"), check={"warnings": ["seen"]}) as hooks:
        await hooks.configure("mutating", hooks.hook("a.example.com", "/patch"))
        await hooks.configure("validating", hooks.hook("b.example.com", "/check"))
        large = {"metadata": {"name": "a"}, "data": {f"k{n}": "v" * 1000 for n in range(100)}}
        made = await hooks.api.ask("POST", MAPS, large)
        assert made.expect(201)["data"] == {**large["data"], "x": "1"}
        assert made.warnings == ['299 - "seen"']
        (await hooks.api.ask("PUT", f"{MAPS}/a", large)).expect(200)
        assert [one["operation"] for one in hooks.requests] == ["CREATE", "CREATE", "UPDATE", "UPDATE"]
        assert hooks.requests[-1]["oldObject"]["data"]["x"] == "1"


async def test_status_and_scale_are_reviewed_as_subresources() -> None:
    rules = [{"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["*/scale"]}]
    async with hooking(patch=adding("/spec/replicas", 7)) as hooks:
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "replicas": 1}
        await hooks.api.create("deployments", {"metadata": {"name": "d"}, "spec": spec})
        await hooks.configure("mutating", hooks.hook("a.example.com", "/patch", rules=rules))
        path = f"{hooks.api.path('deployments', 'default', 'd')}/scale"
        scale = {"metadata": {"name": "d"}, "spec": {"replicas": 3}}
        assert (await hooks.api.ask("PUT", path, scale)).expect(200)["spec"] == {"replicas": 7}
        [request] = hooks.requests
        assert request["object"]["spec"] == {"replicas": 3}
        assert request["oldObject"]["spec"] == {"replicas": 1}
        assert (request["subResource"], request["kind"]["kind"]) == ("scale", "Scale")


async def test_stored_configurations_that_could_not_be_created_today() -> None:
    """Imported configurations: side effects in a dry run, and review versions that the server does not support."""
    async with open_store() as store:
        rbac = Rbac(stored_policy(CLUSTER, store.journal, store.feed))
        context = PluginContext(CLUSTER, store.journal, store.feed, AlwaysAllow(), rbac, store.registry)
        mutating, _ = webhook_plugins(context, partial(conditions_met, context))
        stored = {
            "metadata": {"name": "old"},
            "webhooks": [
                {
                    "name": "a.example.com",
                    "clientConfig": {"url": "https://127.0.0.1:1/"},
                    "admissionReviewVersions": ["v9"],
                    "sideEffects": None,
                }
            ],
        }
        [hook] = hooks_of(stored)
        definition = store.definition("configmaps")
        match = Match(0, hook, definition)
        context = store.write_contexts.new("u", "m")
        new = {"metadata": {"name": "a"}}
        request = AdmissionRequest(CREATE, definition, "default", "a", "", new, None, "u", True, context)
        with pytest.raises(BadRequest, match=r"a[.]example[.]com.* does not support dry run"):
            await mutating._caller.ask(match, request, 0)
        request.dry_run = False
        with pytest.raises(WebhookFailed, match="no known review version"):
            await mutating._caller.ask(match, request, 0)
        wrong = replace(hook, review_version="v1", url="https://127.0.0.1:70000/")
        with pytest.raises(WebhookFailed, match="the URL cannot be used"):
            await mutating._caller.ask(match._replace(hook=wrong), request, 0)
        counts = mutating.timings.rejections()
        assert counts[INTERNAL, "a.example.com", CREATE, "0", "admit"] == 1
        assert counts[CALLING, "a.example.com", CREATE, "400", "admit"] == 2


async def test_many_writes_wait_for_one_webhook_and_others_continue() -> None:
    released, waiting = trio.Event(), 0

    async def hold(_: Any) -> dict[str, Any]:
        nonlocal waiting
        waiting += 1
        await released.wait()
        return {}

    async with hooking(hold=hold) as hooks, trio.open_nursery() as nursery:
        await hooks.configure("validating", hooks.hook("a.example.com", "/hold", timeoutSeconds=30))
        for index in range(20):
            nursery.start_soon(hooks.create, f"a{index}")
        with trio.fail_after(60):
            while waiting < 20:
                await trio.sleep(0.001)
        (await hooks.api.ask("DELETE", f"{MAPS}/none")).expect(404)
        await hooks.remove("validating")
        (await hooks.create("quick")).expect(201)
        listed = await hooks.api.list("configmaps")
        assert [one["metadata"]["name"] for one in listed["items"]] == ["quick"]
        released.set()


async def test_bundle_may_be_the_serving_certificate_itself() -> None:
    async with hooking(deny=DENY) as hooks:
        hook = hooks.hook("a.example.com", "/deny")
        leaf = base64.b64encode((pki() / "server.pem").read_bytes()).decode()
        await hooks.configure(
            "validating", {**hook, "clientConfig": {**hook["clientConfig"], "caBundle": leaf}}
        )
        refused = (await hooks.create("a")).expect(400)
        assert (
            refused["message"] == 'admission webhook "a.example.com" denied the request without explanation'
        )
        untrusted = base64.b64encode((pki() / "untrusted.pem").read_bytes()).decode()
        other = {**hook, "clientConfig": {**hook["clientConfig"], "caBundle": untrusted}}
        await hooks.configure("validating", other, name="other")
        await hooks.remove("validating")
        assert "certificate verify failed" in (await hooks.create("a")).expect(500)["message"]


async def test_paths_of_webhooks_are_cleaned() -> None:
    async with hooking() as hooks:
        for sent, called in {
            "//mutate": "/mutate",
            "/a/./b//../c/": "/a/c",
            "/a%2Fb": "/a/b",
            "/a%20b": "/a%20b",
            "/": "/",
            "": "/",
        }.items():
            await hooks.configure("validating", hooks.hook("a.example.com", sent))
            (await hooks.create("a", dryRun="All")).expect(201)
            assert hooks.called() == [called], sent
            await hooks.remove("validating")


CONDITION_ERRORS = "apiserver_admission_match_condition_evaluation_errors_total"


async def test_match_conditions_see_what_earlier_webhooks_changed() -> None:
    version = {"dialect": "kubernetes", "kubernetes_version": "1.36"}
    async with hooking(changed=version, patch=adding("/data/added", "1")) as hooks:
        added = [{"name": "added", "expression": "has(object.data.added)"}]
        not_added = [{"name": "not-added", "expression": "!has(object.data.added)"}]
        await hooks.configure(
            "mutating",
            hooks.hook("a.example.com", "/patch"),
            hooks.hook("b.example.com", "/b", matchConditions=added),
            hooks.hook("c.example.com", "/c", matchConditions=not_added),
        )
        await hooks.configure("validating", hooks.hook("d.example.com", "/d", matchConditions=not_added))
        (await hooks.create("a")).expect(201)
        assert hooks.called() == ["/patch", "/b"]
        wrong = [{"name": "wrong", "expression": "object.data.none == 'x'"}]
        await hooks.configure(
            "validating", hooks.hook("e.example.com", "/e", matchConditions=wrong), name="wrong"
        )
        refused = (await hooks.create("b")).expect(403)
        assert refused["message"] == (
            "configmaps \"b\" is forbidden: expression 'object.data.none == 'x'' resulted in error: "
            "no such key: none"
        )
        metrics = (await hooks.api.ask("GET", "/metrics")).text
        [line] = [one for one in metrics.splitlines() if one.startswith(f"{CONDITION_ERRORS}{{")]
        assert 'name="e.example.com"' in line and 'kind="webhook"' in line and line.endswith(" 1")
