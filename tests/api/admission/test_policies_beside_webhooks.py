"""Policies and webhooks beside each other: order, reinvocation, what each sees, and requests that connect to pods."""

from __future__ import annotations

from typing import Any

from tests.api.admission.test_mutating_policies import MAPS, SEEN, bind
from tests.api.webhooks.hooking import adding, hooking
from tests.gateway.api import Api, served
from tests.gateway.outgoing.https_peer import Reply

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
