"""Mutating admission policies of 1.36: order, reinvocation with webhooks, parameters and errors."""

from __future__ import annotations

from typing import Any

from tests.api.webhooks.hooking import adding, hooking
from tests.gateway.api import Api, served

POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
MAPS = "/api/v1/namespaces/default/configmaps"
RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["configmaps"],
}
SEEN = "Object{data: {'seen': has(object.data.hook) ? 'after' : 'before'}}"


def configuration(text: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}


async def bind(api: Api, name: str, *texts: str, param: Any = None, **spec: Any) -> None:
    policy = {
        "mutations": [configuration(one) for one in texts],
        "matchConstraints": {"resourceRules": [RULE]},
        "reinvocationPolicy": "Never",
        **spec,
    }
    (await api.ask("POST", POLICIES, {"metadata": {"name": name}, "spec": policy})).expect(201)
    bound = {"policyName": name, **({"paramRef": param} if param else {})}
    (await api.ask("POST", BINDINGS, {"metadata": {"name": f"{name}-b"}, "spec": bound})).expect(201)


async def create(api: Api, name: str, status: int = 201, query: str = "") -> Any:
    made = {"metadata": {"name": name, "labels": {"own": "1"}}, "data": {"k": "v"}}
    return (await api.ask("POST", MAPS + query, made)).expect(status)


async def test_policies_change_objects_in_order() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        await bind(api, "b", "Object{data: {'b': object.data.a}}")
        await bind(
            api, "a", "Object{data: {'a': variables.x}}", variables=[{"name": "x", "expression": "'1'"}]
        )
        made = await create(api, "a")
        assert made["data"] == {"a": "1", "b": "1", "k": "v"}
        assert made["metadata"]["managedFields"][0]["fieldsV1"]["f:data"] == {".": {}, "f:k": {}}
        assert (await create(api, "dry", query="?dryRun=All"))["data"] == made["data"]
        (await api.ask("GET", f"{MAPS}/dry")).expect(404)
        changed = (await api.ask("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}, "data": {"a": "2"}})).expect(
            200
        )
        assert changed["data"] == {"a": "1", "b": "1"}
        (await api.ask("DELETE", f"{BINDINGS}/a-b")).expect(200)
        refused = await create(api, "c", 403)
        text = (
            "policy 'b' with binding 'b-b' denied request: expression 'Object{data: {'b': object.data.a}}' "
        )
        assert refused["message"] == f"{text}resulted in error: no such key: a"
        assert (refused["reason"], refused["details"]["causes"]) == (
            "Invalid",
            [{"message": refused["message"]}],
        )
        metrics = (await api.ask("GET", "/metrics")).body.decode()
        lines = [one for one in metrics.splitlines() if "mutating_admission_policy_check_total{" in one]
        assert sum('policy="b"' in one and "no_error" in one and one.endswith(" 3") for one in lines) == 1, (
            lines
        )
        assert (
            sum('policy="b"' in one and "invalid_error" in one and one.endswith(" 1") for one in lines) == 1
        )


async def test_parameters_conditions_and_ignored_errors() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        for name in ("p1", "p2"):
            value = {"metadata": {"name": name, "labels": {"p": "1"}}, "data": {"x": name}}
            (await api.ask("POST", MAPS, value)).expect(201)
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        selected = {"selector": {"matchLabels": {"p": "1"}}, "parameterNotFoundAction": "Deny"}
        await bind(api, "a", "Object{data: {params.data.x: 'y'}}", param=selected, paramKind=kind)
        failing = "Object{data: {'c': object.data.missing}}"
        await bind(api, "b", "Object{data: {'b': '1'}}", failing, failurePolicy="Ignore")
        unmet = [{"name": "c", "expression": "object.metadata.name == 'other'"}]
        await bind(api, "c", "Object{data: {'c': '1'}}", matchConditions=unmet)
        assert (await create(api, "a"))["data"] == {"b": "1", "k": "v", "p1": "y", "p2": "y"}
        (await api.ask("DELETE", f"{MAPS}/p1")).expect(200)
        (await api.ask("DELETE", f"{MAPS}/p2")).expect(200)
        refused = await create(api, "b", 403)
        assert refused["message"].endswith(
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        )


async def test_policies_run_before_webhooks_and_again_if_needed() -> None:
    version = {"dialect": "kubernetes", "kubernetes_version": "1.36"}
    async with hooking(changed=version, change=adding("/data/hook", "1")) as hooks:
        api = hooks.api
        await hooks.configure(
            "mutating", hooks.hook("a.example.com", "/change", reinvocationPolicy="IfNeeded")
        )
        await bind(api, "a", SEEN)
        assert (await create(api, "a"))["data"] == {"hook": "1", "k": "v", "seen": "before"}
        (await api.ask("DELETE", f"{BINDINGS}/a-b")).expect(200)
        await bind(api, "b", SEEN, reinvocationPolicy="IfNeeded")
        assert (await create(api, "b"))["data"] == {"hook": "1", "k": "v", "seen": "after"}
