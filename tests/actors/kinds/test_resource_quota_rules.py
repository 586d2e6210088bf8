"""ResourceQuota: names and amounts, valid and immutable scopes, and status."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

PLURAL = "resourcequotas"


def quota(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": spec}


def with_scope_selector(scope: str, operator: str = "Exists", *values: str, **hard: str) -> dict[str, Any]:
    requirement = {"scopeName": scope, "operator": operator, "values": list(values)}
    return quota(hard=hard or {"pods": "1"}, scopeSelector={"matchExpressions": [requirement]})


def test_valid_quotas_are_accepted(kinds: Definitions) -> None:
    hard = {
        "pods": "4",
        "requests.cpu": "1",
        "count/jobs.batch": "2",
        "services.loadbalancers": "1",
        "requests.hugepages-2Mi": "4Mi",
        "fast.storageclass.example.com/requests.storage": "1Gi",
        "requests.storage": "1Gi",
    }
    assert kinds.create_causes(PLURAL, quota(hard=hard)) == []
    assert (
        kinds.create_causes(PLURAL, quota(hard={"pods": "4"}, scopes=["NotTerminating", "BestEffort"])) == []
    )
    assert kinds.create_causes(PLURAL, with_scope_selector("PriorityClass", "In", "high")) == []
    assert kinds.create_causes(PLURAL, {"metadata": {"name": "a"}}) == []


@cases(
    ("hard", "messages"),
    [
        ({"pods": "-1"}, ['Invalid value: "-1": must be greater than or equal to 0']),
        ({"pods": "1500m"}, ['Invalid value: "1500m": must be an integer']),
        (
            {"nonsense": "1"},
            [
                'Invalid value: "nonsense": must be a standard resource type or fully qualified',
                'Invalid value: "nonsense": must be a standard resource for quota',
            ],
        ),
        ({"storage": "1Gi"}, ['Invalid value: "storage": must be a standard resource for quota']),
    ],
)
def test_names_and_amounts_are_validated(kinds: Definitions, hard: Any, messages: list[str]) -> None:
    [name] = hard
    expected = [(f"spec.hard[{name}]", message) for message in messages]
    assert kinds.create_causes(PLURAL, quota(hard=hard)) == expected
    found = {**quota(), "status": {"hard": hard, "used": {}}}
    _, causes = kinds.update(PLURAL, quota(), found, "status")
    assert causes == [(field.replace("spec", "status"), message) for field, message in expected]


def scopes(*listed: str) -> str:
    return "Invalid value: []core.ResourceQuotaScope{" + ", ".join(f'"{one}"' for one in listed) + "}"


@cases(
    ("hard", "listed", "why"),
    [
        ("pods", ["Odd"], "unsupported scope"),
        ("pods", ["BestEffort", "NotBestEffort"], "conflicting scopes"),
        ("pods", ["Terminating", "NotTerminating"], "conflicting scopes"),
        ("services", ["Terminating"], "unsupported scope applied to resource"),
        ("cpu", ["BestEffort"], "unsupported scope applied to resource"),
    ],
)
def test_scopes_are_validated(kinds: Definitions, hard: str, listed: list[str], why: str) -> None:
    assert kinds.create_causes(PLURAL, quota(hard={hard: "1"}, scopes=listed)) == [
        ("spec.scopes", f"{scopes(*listed)}: {why}")
    ]


EXPRESSIONS = "spec.scopeSelector.matchExpressions"


@cases(
    ("document", "field", "why"),
    [
        (with_scope_selector("Odd"), ".scopeName", "unsupported scope"),
        (with_scope_selector("BestEffort", cpu="1"), "", "unsupported scope applied to resource"),
        (
            with_scope_selector("PriorityClass", "In"),
            ".values",
            "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        ),
        (
            with_scope_selector("PriorityClass", "Exists", "x"),
            ".values",
            "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
        ),
        (with_scope_selector("PriorityClass", "Near"), ".operator", "not a valid selector operator"),
        (
            with_scope_selector("Terminating", "DoesNotExist"),
            ".operator",
            "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, "
            "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort "
            "or ResourceQuotaScopeCrossNamespacePodAffinity",
        ),
    ],
)
def test_scope_selector_is_validated(kinds: Definitions, document: Any, field: str, why: str) -> None:
    [(path, message)] = kinds.create_causes(PLURAL, document)
    assert path == EXPRESSIONS + field and message.endswith(f": {why}")


def test_scope_selector_cannot_have_conflicting_scopes(kinds: Definitions) -> None:
    both = [{"scopeName": one, "operator": "Exists"} for one in ("BestEffort", "NotBestEffort")]
    document = quota(hard={"pods": "1"}, scopeSelector={"matchExpressions": both})
    assert kinds.create_causes(PLURAL, document) == [(EXPRESSIONS, f"{scopes()}: conflicting scopes")]


def test_scopes_are_immutable(kinds: Definitions) -> None:
    before = quota(hard={"pods": "1"}, scopes=["NotTerminating"])
    after = quota(hard={"pods": "1"}, scopes=["Terminating"])
    assert kinds.update(PLURAL, before, after)[1] == [
        ("spec.scopes", f"{scopes('Terminating')}: field is immutable")
    ]
    assert kinds.update(PLURAL, before, quota(hard={"pods": "2"}, scopes=["NotTerminating"]))[1] == []


def test_status_subresource_changes_only_the_status(kinds: Definitions) -> None:
    found = {**quota(hard={"pods": "9"}), "status": {"hard": {"pods": "1"}, "used": {"pods": "0"}}}
    assert kinds.stored(PLURAL, found)["status"] == {}
    new, causes = kinds.update(PLURAL, quota(hard={"pods": "1"}), found, "status")
    assert causes == [] and new["spec"] == {"hard": {"pods": "1"}} and new["status"] == found["status"]
    assert kinds.update(PLURAL, quota(), found)[0]["status"] == {}


def test_delete_returns_the_object(kinds: Definitions) -> None:
    assert kinds[PLURAL].deletion.returns_object and not kinds[PLURAL].strategy.allow_create_on_update
