"""Policies and webhooks beside each other: order, reinvocation, what each sees, and requests that connect to pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewound.gateway.settings.access import AuthorizationSettings
from tests.api.admission.test_mutating_policies import MAPS, SEEN, bind
from tests.api.custom.converting import converting
from tests.api.custom.kinds import GROUP as WIDGETS
from tests.api.webhooks.hooking import adding, hooking
from tests.gateway.api import ALICE, Api, served
from tests.gateway.outgoing.https_peer import Received, Reply, https_peer

VERSION = {"dialect": "kubernetes", "kubernetes_version": "1.36"}
GROUP = "/apis/admissionregistration.k8s.io/v1"
OUTSIDE = {
    "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
    ]
}
RULE = {"apiGroups": [""], "apiVersions": ["v1"]}


async def validate(api: Api, name: str, expression: str, operation: str, resource: str) -> None:
    rule = {**RULE, "operations": [operation], "resources": [resource]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    for plural, body in (
        ("policies", spec),
        ("policybindings", {"policyName": name, "validationActions": ["Deny"]}),
    ):
        made = {"metadata": {"name": name}, "spec": body}
        (await api.ask("POST", f"{GROUP}/validatingadmission{plural}", made)).expect(201)


async def test_policies_and_webhooks_keep_their_order() -> None:
    """A mutating webhook for all namespaces but one, which wants to be asked again, and a validating one that fails."""
    async with hooking(changed=VERSION, change=adding("/data/hook", "1"), broken=Reply(status=500)) as hooks:
        api = hooks.api
        mutating = hooks.hook(
            "m.example.com", "/change", reinvocationPolicy="IfNeeded", namespaceSelector=OUTSIDE
        )
        await bind(api, "seen", SEEN, reinvocationPolicy="IfNeeded")
        await hooks.configure("mutating", mutating)
        await hooks.configure("validating", hooks.hook("v.example.com", "/broken", failurePolicy="Ignore"))
        await validate(
            api,
            "last",
            "object.data.seen == 'after' || request.namespace != 'default'",
            "CREATE",
            "configmaps",
        )
        made = (await hooks.create("a")).expect(201)
        assert made["data"] == {"hook": "1", "k": "v", "seen": "after"}
        # The policy changed the object after the first call, so the webhook is asked again, before validation. All
        # of it is repeated if the status of a policy changes meanwhile.
        *changes, last = hooks.called()
        assert changes == ["/change"] * len(changes) and len(changes) % 2 == 0 and last == "/broken"
        assert "seen" not in made["metadata"]["managedFields"][0]["fieldsV1"]["f:data"]
        other: dict[str, Any] = {"metadata": {"name": "a"}, "data": {"k": "v"}}
        excluded = (await api.ask("POST", MAPS.replace("default", "kube-system"), other)).expect(201)
        assert excluded["data"] == {"k": "v", "seen": "before"}
        assert hooks.called() == ["/broken"]
        await validate(api, "never", "false", "CREATE", "configmaps")
        (await hooks.create("b")).expect(422)
        # A policy that denies ends validation before webhooks.
        assert set(hooks.called()) == {"/change"}


async def test_policies_see_the_options_of_connections() -> None:
    expression = "object.kind == 'PodExecOptions' && object.command[0] == 'ls' && oldObject == null"
    async with served(**VERSION) as api:
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        pods = "/api/v1/namespaces/default/pods"
        (await api.ask("POST", pods, {"metadata": {"name": "p"}, "spec": spec})).expect(201)
        await validate(api, "exec", expression, "CONNECT", "pods/exec")
        refused = (await api.ask("POST", f"{pods}/p/exec?command=rm&container=c")).expect(422)
        assert refused["message"].endswith(f"denied request: failed expression: {expression}")
        allowed = await api.ask("POST", f"{pods}/p/exec?command=ls&container=c")
        assert "denied request" not in str(allowed.body)


@pytest.mark.parametrize("policy", ["Equivalent", "Exact"])
async def test_policies_get_objects_in_the_version_that_they_match(policy: str) -> None:
    """A webhook converts; parameters are converted, too."""
    expression = "object.spec.length < params.spec.length && object.apiVersion.endsWith('/v2')"
    async with converting(changed=VERSION) as server:
        api = server.api
        await server.create("most", size=5)
        rule = {
            "apiGroups": [WIDGETS],
            "apiVersions": ["v2"],
            "operations": ["CREATE"],
            "resources": ["widgets"],
        }
        spec = {
            "paramKind": {"apiVersion": f"{WIDGETS}/v2", "kind": "Widget"},
            "matchConstraints": {"matchPolicy": policy, "resourceRules": [rule]},
            "validations": [
                {"expression": expression, "messageExpression": "'is ' + string(object.spec.length)"}
            ],
        }
        reference = {"name": "most", "namespace": "default", "parameterNotFoundAction": "Deny"}
        bound = {"policyName": "short", "validationActions": ["Deny"], "paramRef": reference}
        for plural, body in (("policies", spec), ("policybindings", bound)):
            made = {"metadata": {"name": "short"}, "spec": body}
            (await api.ask("POST", f"{GROUP}/validatingadmission{plural}", made)).expect(201)
        in_v1, in_v2 = (server.widget(version, "b", size=7) for version in ("v1", "v2"))
        refused = (await api.ask("POST", server.path("v2"), in_v2)).expect(422)
        assert refused["message"].endswith("denied request: is 7")
        tried = await api.ask("POST", server.path("v1"), in_v1)
        assert tried.status == (422 if policy == "Equivalent" else 201)
        (await api.ask("POST", server.path("v1"), server.widget("v1", "c", size=4))).expect(201)
        if policy == "Equivalent":
            server.respond = lambda _, right: {
                **right,
                "response": {**right["response"], "result": {"status": "Failure"}},
            }
            failed = (await api.ask("POST", server.path("v1"), server.widget("v1", "d", size=4))).expect(422)
            assert "failed to configure binding: failed to convert object version" in failed["message"]


async def test_policies_ask_a_webhook_that_authorizes(tmp_path: Path) -> None:
    """The webhook is asked once for each check, while the write waits."""
    check = "authorizer.group('').resource('secrets').namespace('default').check('{}').allowed()"

    def decide(received: Received) -> Any:
        attributes = received.document["spec"]["resourceAttributes"]
        allowed = attributes["resource"] == "configmaps" or attributes["verb"] == "get"
        return {**received.document, "status": {"allowed": allowed}}

    async with https_peer(decide) as peer:
        webhook = AuthorizationSettings(
            authorization_webhook_config_file=peer.kubeconfig(tmp_path), authorization_webhook_version="v1"
        )
        async with served(**VERSION, authorization_mode="Webhook", authorization=webhook) as api:
            await _ask_with_policy(api, check)
        asked = [one.document["spec"]["resourceAttributes"] for one in peer.received]
        assert [one["verb"] for one in asked if one["resource"] == "secrets"] == ["get", "delete"]


async def _ask_with_policy(api: Api, check: str) -> None:
    expression = f"{check.format('get')} && !{check.format('delete')}"
    await validate(api, "may", expression, "CREATE", "configmaps")
    (await api.ask("POST", MAPS, {"metadata": {"name": "a"}}, token=ALICE)).expect(201)
    await validate(api, "may-not", check.format("delete"), "CREATE", "configmaps")
    refused = (await api.ask("POST", MAPS, {"metadata": {"name": "b"}}, token=ALICE)).expect(422)
    assert "ValidatingAdmissionPolicy 'may-not' with binding 'may-not' denied request" in refused["message"]
