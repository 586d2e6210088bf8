"""Webhook configurations: defaults, names, policies, rules, selectors, what stored ones may keep, generation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
BOTH = pytest.mark.parametrize("plural", [MUTATING, VALIDATING])
RULE = {"operations": ["CREATE"], "apiGroups": ["x"], "apiVersions": ["v1"], "resources": ["things"]}


def hook(**parts: Any) -> dict[str, Any]:
    whole = {
        "name": "a.example.com",
        "clientConfig": {"service": {"namespace": "n", "name": "s"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [RULE],
        **parts,
    }
    return {key: value for key, value in whole.items() if value is not None}


def configuration(*hooks: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "webhooks": list(hooks)}


@BOTH
def test_create_sets_defaults(kinds: Definitions, plural: str) -> None:
    stored = kinds.stored(plural, configuration(hook()))
    expected = {
        "name": "a.example.com",
        "clientConfig": {"service": {"namespace": "n", "name": "s", "port": 443}},
        "rules": [{**RULE, "scope": "*"}],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
    }
    if plural == MUTATING:
        expected["reinvocationPolicy"] = "Never"
    assert stored["webhooks"] == [expected]
    assert stored["metadata"]["generation"] == 1
    assert kinds.create_causes(plural, configuration(hook())) == []
    assert kinds.create_causes(plural, {"metadata": {"name": "a"}}) == []


CASES: list[tuple[dict[str, Any], str, str]] = [
    (hook(name=""), "name", "Required value"),
    (
        hook(name="example.com"),
        "name",
        'Invalid value: "example.com": should be a domain with at least three segments separated by dots',
    ),
    (
        hook(failurePolicy="Maybe"),
        "failurePolicy",
        'Unsupported value: "Maybe": supported values: "Fail", "Ignore"',
    ),
    (
        hook(matchPolicy="Roughly"),
        "matchPolicy",
        'Unsupported value: "Roughly": supported values: "Equivalent", "Exact"',
    ),
    (hook(sideEffects=None), "sideEffects", "Required value: must specify one of None, NoneOnDryRun"),
    (
        hook(sideEffects="Some"),
        "sideEffects",
        'Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
    ),
    (
        hook(timeoutSeconds=0),
        "timeoutSeconds",
        "Invalid value: 0: the timeout value must be between 1 and 30 seconds",
    ),
    (
        hook(timeoutSeconds=31),
        "timeoutSeconds",
        "Invalid value: 31: the timeout value must be between 1 and 30 seconds",
    ),
    (
        hook(admissionReviewVersions=[]),
        "admissionReviewVersions",
        "Required value: must specify one of v1, v1beta1",
    ),
    (
        hook(admissionReviewVersions=["v9"]),
        "admissionReviewVersions",
        'Invalid value: []string{"v9"}: must include at least one of v1, v1beta1',
    ),
    (
        hook(admissionReviewVersions=["v1", "v1"]),
        "admissionReviewVersions[1]",
        'Invalid value: "v1": duplicate version',
    ),
    (hook(clientConfig={}), "clientConfig", "Required value: exactly one of url or service is required"),
    (
        hook(clientConfig={"url": "https://h", "service": {"namespace": "n", "name": "s"}}),
        "clientConfig",
        "Required value: exactly one of url or service is required",
    ),
    (
        hook(namespaceSelector={"matchExpressions": [{"key": "k", "operator": "Near"}]}),
        "namespaceSelector.matchExpressions[0].operator",
        'Invalid value: "Near": not a valid selector operator',
    ),
    (
        hook(objectSelector={"matchExpressions": [{"key": "k", "operator": "Near"}]}),
        "objectSelector.matchExpressions[0].operator",
        'Invalid value: "Near": not a valid selector operator',
    ),
]


@BOTH
@pytest.mark.parametrize(("wrong", "field", "message"), CASES)
def test_create_reports_invalid_webhooks(
    kinds: Definitions, plural: str, wrong: Any, field: str, message: str
) -> None:
    fine = hook(name="b.example.com")
    assert kinds.create_causes(plural, configuration(fine, wrong)) == [(f"webhooks[1].{field}", message)]


@BOTH
def test_values_at_their_limits_are_valid(kinds: Definitions, plural: str) -> None:
    extremes = hook(
        timeoutSeconds=30,
        sideEffects="NoneOnDryRun",
        failurePolicy="Ignore",
        matchPolicy="Exact",
        admissionReviewVersions=["v9", "v1beta1"],
        clientConfig={"url": "https://h.example.com:8443/x", "caBundle": "AAAA"},
        rules=[{**RULE, "operations": ["*"], "scope": "Cluster"}],
    )
    assert kinds.create_causes(plural, configuration(extremes)) == []


@BOTH
def test_webhook_names_are_unique(kinds: Definitions, plural: str) -> None:
    assert kinds.create_causes(plural, configuration(hook(), hook())) == [
        ("webhooks[1].name", 'Duplicate value: "a.example.com"')
    ]


@BOTH
def test_formats_of_names_and_versions_are_validated(kinds: Definitions, plural: str) -> None:
    for wrong in ("A.Example.Com", "a..example.com"):
        assert [field for field, _ in kinds.create_causes(plural, configuration(hook(name=wrong)))] == [
            "webhooks[0].name"
        ]
    wrong_version = configuration(hook(admissionReviewVersions=["v1", "Bad_!"]))
    assert [field for field, _ in kinds.create_causes(plural, wrong_version)] == [
        "webhooks[0].admissionReviewVersions[1]"
    ]


def test_only_mutating_webhooks_have_a_reinvocation_policy(kinds: Definitions) -> None:
    assert kinds.create_causes(MUTATING, configuration(hook(reinvocationPolicy="IfNeeded"))) == []
    assert kinds.create_causes(MUTATING, configuration(hook(reinvocationPolicy="Often"))) == [
        (
            "webhooks[0].reinvocationPolicy",
            'Unsupported value: "Often": supported values: "IfNeeded", "Never"',
        )
    ]
    assert "reinvocationPolicy" not in kinds[VALIDATING].fields.fields[1].type.item.by_name  # type: ignore[union-attr]


STAR = "if '*' is present, must not specify other"

RULES: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"operations": []}, [("operations", "Required value")]),
    (
        {"operations": ["*", "CREATE"]},
        [("operations", f'Invalid value: []string{{"*", "CREATE"}}: {STAR} operations')],
    ),
    (
        {"operations": ["READ"]},
        [
            (
                "operations[0]",
                'Unsupported value: "READ": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"',
            )
        ],
    ),
    ({"apiGroups": []}, [("apiGroups", "Required value")]),
    ({"apiGroups": ["", "apps"]}, []),
    ({"apiGroups": ["*", "a"]}, [("apiGroups", f'Invalid value: []string{{"*", "a"}}: {STAR} API groups')]),
    ({"apiVersions": []}, [("apiVersions", "Required value")]),
    ({"apiVersions": ["v1", ""]}, [("apiVersions[1]", "Required value")]),
    (
        {"apiVersions": ["*", "v1"]},
        [("apiVersions", f'Invalid value: []string{{"*", "v1"}}: {STAR} API versions')],
    ),
    (
        {"scope": "Galaxy"},
        [("scope", 'Unsupported value: "Galaxy": supported values: "*", "Cluster", "Namespaced"')],
    ),
    ({"resources": []}, [("resources", "Required value")]),
    ({"resources": ["a", ""]}, [("resources[1]", "Required value")]),
    (
        {"resources": ["*", "pods"]},
        [("resources", f'Invalid value: []string{{"*", "pods"}}: {STAR} resources without subresources')],
    ),
    ({"resources": ["*", "pods/status"]}, []),
    (
        {"resources": ["*/*", "pods"]},
        [
            (
                "resources",
                'Invalid value: []string{"*/*", "pods"}: '
                "if '*/*' is present, must not specify other resources",
            )
        ],
    ),
    (
        {"resources": ["pods/*", "pods/status"]},
        [
            (
                "resources[1]",
                "Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
            )
        ],
    ),
    (
        {"resources": ["*/status", "pods/status"]},
        [
            (
                "resources[1]",
                "Invalid value: \"pods/status\": if '*/status' is present, must not specify pods/status",
            )
        ],
    ),
]


@cases(("parts", "expected"), RULES)
def test_create_reports_invalid_rules(
    kinds: Definitions, parts: Any, expected: list[tuple[str, str]]
) -> None:
    sent = configuration(hook(rules=[{**RULE, **parts}]))
    assert kinds.create_causes(VALIDATING, sent) == [
        (f"webhooks[0].rules[0].{field}", message) for field, message in expected
    ]


@BOTH
def test_generation_counts_changes_of_webhooks(kinds: Definitions, plural: str) -> None:
    before = configuration(hook())
    assert kinds.update(plural, before, before)[0]["metadata"]["generation"] == 1
    new, causes = kinds.update(plural, before, configuration(hook(timeoutSeconds=3)))
    assert causes == [] and new["metadata"]["generation"] == 2
    _, causes = kinds.update(plural, before, configuration(hook(timeoutSeconds=99)))
    assert [field for field, _ in causes] == ["webhooks[0].timeoutSeconds"]


@BOTH
def test_update_may_keep_violations_of_later_rules(kinds: Definitions, plural: str) -> None:
    for mistake in (
        configuration(hook(sideEffects="Some")),
        configuration(hook(admissionReviewVersions=["v9"])),
        configuration(hook(), hook()),
    ):
        assert kinds.create_causes(plural, mistake) != []
        assert kinds.update(plural, mistake, mistake)[1] == []
        assert kinds.update(plural, configuration(hook()), mistake)[1] != []


@BOTH
def test_update_needs_a_resource_version_and_delete_returns_a_status(kinds: Definitions, plural: str) -> None:
    assert not kinds[plural].strategy.allow_unconditional_update and not kinds[plural].deletion.returns_object
    assert kinds[plural].names.categories == ("api-extensions",)
