"""What validating policies do with writes: matching, parameters, messages, actions and failures."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from rewound.actors.errors import RequestError
from rewound.actors.identity import User
from rewound.actors.messages import Create
from tests.actors.admission.policies.policy_store import CONFIG_MAPS, open_policy_store
from tests.actors.object_store import Document, Refused

MAP: Document = {"metadata": {"name": "a", "labels": {"app": "web"}}, "data": {"n": "5"}}


async def test_a_policy_is_in_force_with_the_next_request_and_until_it_is_deleted() -> None:
    async with open_policy_store() as store:
        assert store.plugin.idle
        await store.policy("small", "int(object.data.n) < 3")
        with pytest.raises(Refused) as refused:
            await store.create("configmaps", MAP)
        assert str(refused.value) == (
            "PolicyDenied: configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'small' with binding 'small' "
            "denied request: failed expression: int(object.data.n) < 3"
        )
        await store.delete("validatingadmissionpolicybindings", "small")
        assert store.plugin.idle
        await store.create("configmaps", MAP)
        await store.bind("again", "small")
        with pytest.raises(Refused, match="with binding 'again'"):
            await store.replace("configmaps", MAP)
        await store.restart()
        with pytest.raises(Refused, match="with binding 'again'"):
            await store.replace("configmaps", MAP)


async def test_an_evaluation_leaves_nothing_for_the_garbage_collector() -> None:
    from rewound.actors.admission.policies.review import Review

    async with open_policy_store() as store:
        await store.policy(
            "checked", "has(namespaceObject.metadata) && authorizer != null || object.data.n == '5'"
        )
        await store.mutating("labelled", "Object{metadata: Object.metadata{labels: {'kind': object.kind}}}")
        await store.create("configmaps", MAP)  # the first one runs in a thread, which imports CEL
        gc.collect()
        gc.disable()
        try:
            await store.create("configmaps", {**MAP, "metadata": {"name": "b"}})
            assert not [one for one in gc.get_objects() if type(one) is Review]
        finally:
            gc.enable()


@pytest.mark.parametrize(
    ("constraints", "matches"),
    [
        ({}, True),
        ({"resourceRules": [{**CONFIG_MAPS, "resourceNames": ["a"]}]}, True),
        ({"resourceRules": [{**CONFIG_MAPS, "resourceNames": ["b"]}]}, False),
        ({"resourceRules": [{**CONFIG_MAPS, "operations": ["DELETE"]}]}, False),
        ({"resourceRules": [{**CONFIG_MAPS, "resources": ["secrets"]}]}, False),
        ({"excludeResourceRules": [CONFIG_MAPS]}, False),
        ({"excludeResourceRules": [{**CONFIG_MAPS, "resourceNames": ["b"]}]}, True),
        ({"excludeResourceRules": [{**CONFIG_MAPS, "resourceNames": ["a"]}]}, False),
        ({"objectSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"objectSelector": {"matchLabels": {"app": "db"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"cluster.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"x": "y"}}}, False),
    ],
)
async def test_constraints_of_policies_and_bindings_match_alike(
    constraints: dict[str, Any], matches: bool
) -> None:
    async with open_policy_store() as store:
        await store.policy("by-policy", "false", constraints=constraints)
        assert bool(await store.refusal(MAP)) is matches
        await store.delete("validatingadmissionpolicybindings", "by-policy")
        await store.bind("by-binding", "by-policy", matchResources={"resourceRules": [], **constraints})
        assert bool(await store.refusal(MAP)) is matches


async def test_an_equivalent_version_is_converted_to_the_one_that_matched() -> None:
    rule = {"operations": ["*"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"]}
    constraints = {"resourceRules": [{**rule, "resources": ["horizontalpodautoscalers"]}]}
    text = (
        "object.apiVersion == 'autoscaling/v1' && object.spec.targetCPUUtilizationPercentage == 50 && "
        "request.kind.version == 'v1' && request.requestKind.version == 'v2'"
    )
    metric = {"resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
    target = {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}
    spec = {"scaleTargetRef": target, "maxReplicas": 2, "metrics": [{"type": "Resource", **metric}]}
    async with open_policy_store() as store:
        await store.policy("v1", text, f"!({text})", constraints=constraints)
        body = {"metadata": {"name": "a"}, "spec": spec}
        refusal = await store.refusal(body, "horizontalpodautoscalers", version="v2")
        assert refusal == f"failed expression: !({text})"


async def test_policies_never_match_policies() -> None:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    async with open_policy_store() as store:
        await store.policy("all", "false", constraints={"resourceRules": [rule]})
        assert await store.refusal(MAP)
        await store.policy("another", "true")
        await store.delete("validatingadmissionpolicies", "all")
        assert not await store.refusal(MAP)


async def test_parameters_by_name_and_by_label() -> None:
    kind, text = {"apiVersion": "v1", "kind": "ConfigMap"}, "object.data.n < params.data.most"
    async with open_policy_store() as store:
        reference = {"name": "limits", "parameterNotFoundAction": "Deny"}
        await store.policy("limit", text, paramKind=kind, binding={"paramRef": reference})
        missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        assert await store.refusal(MAP) == missing
        limits: Document = {"metadata": {"name": "limits"}, "data": {"most": "9"}}
        await store.delete("validatingadmissionpolicybindings", "limit")
        await store.create("configmaps", limits)
        await store.bind("limit", "limit", paramRef=reference)
        assert not await store.refusal(MAP)
        await store.delete("validatingadmissionpolicybindings", "limit")
        for name, most in (("small", "1"), ("large", "9")):
            labelled = {"name": name, "labels": {"limits": "yes"}}
            await store.create("configmaps", {"metadata": labelled, "data": {"most": most}})
        by_label = {"selector": {"matchLabels": {"limits": "yes"}}, "parameterNotFoundAction": "Allow"}
        await store.bind("labelled", "limit", paramRef=by_label)
        assert await store.refusal(MAP) == f"failed expression: {text}"
        assert not await store.refusal({"metadata": {"name": "b"}, "data": {"n": "0"}})
        assert not await store.refusal(MAP, namespace="kube-system")  # no parameters there


@pytest.mark.parametrize("version", ["1.26", "1.27"])
async def test_the_first_versions_find_parameters_by_name_and_namespace_only(version: str) -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    async with open_policy_store(version) as store:
        await store.create("configmaps", {"metadata": {"name": "limits"}, "data": {"most": "9"}})
        await store.policy(
            "p", "object.data.n < params.data.most", paramKind=kind, binding={"paramRef": LIMITS}
        )
        assert not await store.refusal(MAP)
        assert not await store.refusal(MAP, namespace="kube-system")
        await store.bind("without", "p", paramRef={"name": "limits"})
        assert await store.refusal(MAP) == "failed to configure binding: limits not found"
        await store.delete("validatingadmissionpolicybindings", "without")
        await store.bind("missing", "p", paramRef={"name": "x", "namespace": "default"})
        assert await store.refusal(MAP) == "failed to configure binding: x not found"


LIMITS = {"name": "limits", "namespace": "default"}


@pytest.mark.parametrize("version", ["1.29", "1.30"])
async def test_a_missing_kind_of_parameters_refuses_without_a_binding_until_1_29(version: str) -> None:
    async with open_policy_store(version) as store:
        kind = {"apiVersion": "example.com/v1", "kind": "Missing"}
        await store.policy("m", "true", paramKind=kind)
        await store.delete("validatingadmissionpolicybindings", "m")
        assert bool(await store.refusal(MAP)) == (version == "1.29")
        assert store.plugin.counts_policies == (version == "1.29")
        await store.delete("validatingadmissionpolicies", "m")
        assert not await store.refusal(MAP)
        assert store.plugin.policies_seen == 1


async def test_a_missing_kind_of_parameters_refuses_whatever_the_binding_matches() -> None:
    async with open_policy_store() as store:
        nowhere = {"matchResources": {"namespaceSelector": {"matchLabels": {"x": "y"}}}}
        kind = {"apiVersion": "example.com/v1", "kind": "Missing"}
        await store.policy("m", "true", paramKind=kind, binding=nowhere)
        assert await store.refusal(MAP) == (
            "failed to configure policy: failed to find resource referenced by paramKind: "
            "'example.com/v1, Kind=Missing'"
        )


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ({"message": " no "}, "no"),
        ({"messageExpression": "'n is ' + object.data.n"}, "n is 5"),
        ({"messageExpression": "string(object.data.x)", "message": "fallback"}, "fallback"),
        ({"messageExpression": "'  '"}, "failed expression: false"),
        ({"messageExpression": r"'a\nb'"}, "failed expression: false"),
    ],
)
async def test_messages(validation: Document, message: str) -> None:
    async with open_policy_store() as store:
        await store.policy("p", validations=[{"expression": "false", **validation}])
        assert await store.refusal(MAP) == message


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    "spec",
    [
        {"validations": [{"expression": "object.data.x == 'y'"}]},
        {
            "validations": [{"expression": "true"}],
            "matchConditions": [{"name": "a", "expression": "object.data.x == 'y'"}],
        },
        {"auditAnnotations": [{"key": "a", "valueExpression": "string(object.data.x)"}]},
    ],
)
async def test_failures_of_expressions_follow_the_failure_policy(policy: str, spec: Document) -> None:
    async with open_policy_store() as store:
        await store.policy("p", failurePolicy=policy, **spec)
        assert await store.refusal(MAP) == (
            _failure(spec) + " resulted in error: no such key: x" if policy == "Fail" else ""
        )


def _failure(spec: Document) -> str:
    return (
        "expression 'string(object.data.x)'"
        if "auditAnnotations" in spec
        else "expression 'object.data.x == 'y''"
    )


async def test_match_conditions_that_are_false_skip_the_policy() -> None:
    async with open_policy_store() as store:
        conditions = [
            {"name": "a", "expression": "object.data.x == 'y'"},
            {"name": "b", "expression": "false"},
        ]
        await store.policy("p", "false", matchConditions=conditions)
        assert not await store.refusal(MAP)
        labels = ("p", "policy", "validate", "CREATE")
        assert store.conditions.errors() == {labels: 1}
        assert list(store.conditions.durations()) == [labels]
        assert not store.conditions.exclusions()


async def test_annotations_warnings_and_counts() -> None:
    async with open_policy_store() as store:
        actions = {"validationActions": ["Warn", "Audit"]}
        annotation = {"key": "n", "valueExpression": "'is ' + object.data.n"}
        await store.policy("p", "true", "false", auditAnnotations=[annotation], binding=actions)
        definition = store.definition("configmaps")
        annotations: dict[str, str] = {}
        context = store.write_contexts.new(User("user"), "manager", annotations=annotations)
        command = Create(definition.api_version, "default", MAP, context, True)
        outcome = await store.directory.ask(definition, command)
        warning = (
            "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': failed expression: false"
        )
        assert outcome.warnings == (warning,)
        assert annotations == {
            "p/n": "is 5",
            "validation.policy.admission.cluster.io/validation_failure": (
                '[{"message":"failed expression: false","policy":"p","binding":"p","expressionIndex":1,'
                '"validationActions":["Warn","Audit"]}]'
            ),
        }
        counts = store.plugin.checks.counts()
        assert counts == {("p", "p", "invalid_error", action): 1 for action in ("warn", "audit")}


async def test_expressions_see_namespaces_old_objects_and_what_the_user_may_do() -> None:
    may = "authorizer.group('').resource('secrets').namespace(namespaceObject.metadata.name).check('get').allowed()"
    asked = "authorizer.requestResource.check('create').allowed()"
    async with open_policy_store() as store:
        await store.policy("seen", "namespaceObject.metadata.name == 'default'", f"!{may}")
        assert await store.refusal(MAP) == f"failed expression: !{may}"
        await store.delete("validatingadmissionpolicies", "seen")
        await store.policy("resource", f"!{asked}")
        assert await store.refusal(MAP) == f"failed expression: !{asked}"
        await store.delete("validatingadmissionpolicies", "resource")
        await store.create("configmaps", MAP)
        selected = {"objectSelector": {"matchLabels": {"app": "web"}}}
        await store.policy(
            "kept", "object.metadata.labels == oldObject.metadata.labels", constraints=selected
        )
        with pytest.raises(Refused, match="with binding 'kept'"):
            await store.replace("configmaps", {**MAP, "metadata": {"name": "a", "labels": {"app": "db"}}})


async def test_refused_objects_have_the_warnings_of_their_kind() -> None:
    async with open_policy_store() as store:
        pods = {"resourceRules": [{**CONFIG_MAPS, "resources": ["pods"]}]}
        await store.policy("no-pods", "object == null", constraints=pods)
        value = [{"name": "A", "value": "1"}] * 2
        body = {
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "a", "image": "a", "env": value}]},
        }
        with pytest.raises(Refused) as refused:
            await store.create("pods", body, dryRun="All")
        assert isinstance(refused.value.__cause__, RequestError)
        [warning] = refused.value.__cause__.warnings
        assert warning.startswith("spec.containers[0].env[1]: hides previous definition")


async def test_hostile_expressions_end_at_their_limit() -> None:
    async with open_policy_store() as store:
        loops = "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, true))))"
        await store.policy("slow", loops)
        many = {str(index): "x" for index in range(100)}
        refusal = await store.refusal({"metadata": {"name": "a"}, "data": many})
        assert refusal.endswith("resulted in error: operation cancelled: actual cost limit exceeded")


async def test_large_policies_and_objects_are_reviewed_in_a_thread() -> None:
    async with open_policy_store() as store:
        texts = [f"object.data.x != '{index:0400}'" for index in range(10)]
        await store.policy("large", *texts, "false")
        body = {"metadata": {"name": "a"}, "data": {"x": "y" * 200_000}}
        assert await store.refusal(body) == "failed expression: false"
