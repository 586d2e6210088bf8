"""FlowSchema: precedence, subjects, resources and URLs, the mandatory objects, two versions, its status."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.flowcontrol import MANDATORY_FLOW_SCHEMAS
from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

PLURAL = "flowschemas"
USER = {"kind": "User", "user": {"name": "u"}}
RESOURCES = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
URLS = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/x/*", "/"]}


def schema(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"priorityLevelConfiguration": {"name": "l"}, **spec}}


def ruled(**rule: Any) -> dict[str, Any]:
    whole = {"subjects": [USER], "resourceRules": [RESOURCES], **rule}
    return schema(rules=[{k: v for k, v in whole.items() if v is not None}])


def test_create_sets_defaults(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, {**schema(), "status": {"conditions": [{"type": "Dangling"}]}})
    assert stored["spec"]["matchingPrecedence"] == 1000 and stored["status"] == {}
    assert stored["metadata"]["generation"] == 1
    assert kinds.create_causes(PLURAL, ruled(nonResourceRules=[URLS])) == []


@cases(
    ("document", "field", "message"),
    [
        (schema(matchingPrecedence=-1), "matchingPrecedence", "Invalid value: -1: must be a positive value"),
        (
            schema(matchingPrecedence=10001),
            "matchingPrecedence",
            "Invalid value: 10001: must not be greater than 10000",
        ),
        (
            schema(matchingPrecedence=1),
            "matchingPrecedence",
            "Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
        ),
        (
            schema(distinguisherMethod={"type": "ByHat"}),
            "distinguisherMethod.type",
            'Unsupported value: flowcontrol.FlowDistinguisherMethod{Type:"ByHat"}: '
            'supported values: "ByNamespace", "ByUser"',
        ),
        (
            schema(priorityLevelConfiguration={"name": ""}),
            "priorityLevelConfiguration.name",
            "Required value: must reference a priority level",
        ),
        (
            ruled(subjects=[]),
            "rules[0].subjects",
            "Required value: subjects must contain at least one value",
        ),
        (
            ruled(resourceRules=None),
            "rules[0]",
            "Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
        ),
    ],
)
def test_create_reports_invalid_fields(kinds: Definitions, document: Any, field: str, message: str) -> None:
    assert kinds.create_causes(PLURAL, document) == [(f"spec.{field}", message)]


@cases(
    ("subject", "expected"),
    [
        ({"kind": "Group", "group": {"name": "g"}}, []),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "n", "name": "*"}}, []),
        (
            {"kind": "Robot"},
            [("kind", 'Unsupported value: "Robot": supported values: "Group", "ServiceAccount", "User"')],
        ),
        ({"kind": "User"}, [("user", "Required value: user is required when subject kind is 'User'")]),
        ({"kind": "Group", "group": {}}, [("group.name", "Required value")]),
        (
            {"kind": "Group", "group": {"name": "g"}, "user": {"name": "u"}},
            [("user", "Forbidden: user is forbidden when subject kind is not 'User'")],
        ),
        (
            {"kind": "ServiceAccount", "serviceAccount": {"name": "s"}},
            [("serviceAccount.namespace", "Required value: must specify namespace for service account")],
        ),
    ],
)
def test_create_reports_invalid_subjects(
    kinds: Definitions, subject: Any, expected: list[tuple[str, str]]
) -> None:
    assert kinds.create_causes(PLURAL, ruled(subjects=[USER, subject])) == [
        (f"spec.rules[0].subjects[1].{field}", message) for field, message in expected
    ]


STAR = "if '*' is present, must not specify other"


@cases(
    ("parts", "field", "message"),
    [
        ({"verbs": []}, "verbs", "Required value: verbs must contain at least one value"),
        ({"verbs": ["*", "get"]}, "verbs", f'Invalid value: []string{{"*", "get"}}: {STAR} verbs'),
        (
            {"verbs": ["get", "ponder"]},
            "verbs",
            'Unsupported value: []string{"get", "ponder"}: supported values: "create", "delete", '
            '"deletecollection", "get", "list", "patch", "proxy", "update", "watch"',
        ),
        ({"apiGroups": []}, "apiGroups", "Required value: resource rules must supply at least one api group"),
        ({"apiGroups": ["*", ""]}, "apiGroups", f'Invalid value: []string{{"*", ""}}: {STAR} api groups'),
        ({"resources": []}, "resources", "Required value: resource rules must supply at least one resource"),
        ({"resources": ["*", "a"]}, "resources", f'Invalid value: []string{{"*", "a"}}: {STAR} resources'),
        (
            {"namespaces": []},
            "namespaces",
            "Required value: resource rules that are not cluster scoped must supply at least one namespace",
        ),
        ({"namespaces": ["*", "a"]}, "namespaces", f'Invalid value: []string{{"*", "a"}}: {STAR} namespaces'),
    ],
)
def test_create_reports_invalid_resource_rules(
    kinds: Definitions, parts: Any, field: str, message: str
) -> None:
    sent = ruled(resourceRules=[{**RESOURCES, **parts}])
    assert kinds.create_causes(PLURAL, sent) == [(f"spec.rules[0].resourceRules[0].{field}", message)]


def test_cluster_scoped_rules_need_no_namespace(kinds: Definitions) -> None:
    clusterwide = {**RESOURCES, "clusterScope": True, "namespaces": []}
    assert kinds.create_causes(PLURAL, ruled(resourceRules=[clusterwide])) == []
    [(field, message)] = kinds.create_causes(
        PLURAL, ruled(resourceRules=[{**RESOURCES, "namespaces": ["a.b"]}])
    )
    assert field == "spec.rules[0].resourceRules[0].namespaces[0]"
    assert "each member of this list must be '*' or a DNS-1123 label; a lowercase" in message


@cases(
    ("urls", "field", "message"),
    [
        ([], "", "Required value: nonResourceURLs must contain at least one value"),
        (["*", "/a"], "", f'Invalid value: []string{{"*", "/a"}}: {STAR} non-resource URLs'),
        ([""], "[0]", 'Invalid value: "": must not be empty'),
        (["a"], "[0]", 'Invalid value: "a": must start with slash'),
        (["/a b"], "[0]", 'Invalid value: "/a b": must not contain white-space'),
        (["/a//b"], "[0]", 'Invalid value: "/a//b": must not contain double slash'),
        (["/a*"], "[0]", 'Invalid value: "/a*": wildcard can only do suffix matching'),
        (["/*/*"], "[0]", 'Invalid value: "/*/*": wildcard can only do suffix matching'),
    ],
)
def test_create_reports_invalid_non_resource_urls(
    kinds: Definitions, urls: list[str], field: str, message: str
) -> None:
    sent = ruled(nonResourceRules=[{**URLS, "nonResourceURLs": urls}])
    assert kinds.create_causes(PLURAL, sent) == [
        (f"spec.rules[0].nonResourceRules[0].nonResourceURLs{field}", message)
    ]


@cases("name", ["exempt", "catch-all"])
def test_specs_of_mandatory_objects_are_immutable(kinds: Definitions, name: str) -> None:
    fixed = {"metadata": {"name": name}, "spec": MANDATORY_FLOW_SCHEMAS[name]}
    assert kinds.create_causes(PLURAL, fixed) == []
    changed = {
        **fixed,
        "spec": {**MANDATORY_FLOW_SCHEMAS[name], "distinguisherMethod": {"type": "ByNamespace"}},
    }
    [(field, message)] = kinds.create_causes(PLURAL, changed)
    assert field == "spec" and message.endswith(f"spec of '{name}' must equal the fixed value")


def test_update_changes_generation_and_status_subresource_changes_status(kinds: Definitions) -> None:
    found = {
        **schema(matchingPrecedence=5),
        "metadata": {"name": "a", "labels": {"a": "b"}},
        "status": {"conditions": [{"type": "Dangling", "status": "False"}]},
    }
    new, causes = kinds.update(PLURAL, schema(), found)
    assert causes == [] and new["metadata"]["generation"] == 2 and new["status"] == {}
    new, causes = kinds.update(PLURAL, schema(), found, "status")
    assert causes == [] and new["spec"]["matchingPrecedence"] == 1000 and "labels" not in new["metadata"]
    assert new["status"]["conditions"][0]["type"] == "Dangling"
    twice = {**schema(), "status": {"conditions": [{"type": "A"}, {"type": "A"}, {}]}}
    assert kinds.update(PLURAL, schema(), twice, "status")[1] == [
        ("status.conditions[1].type", 'Duplicate value: "A"'),
        ("status.conditions[2].type", "Required value: must not be empty"),
    ]


@cases("plural", [PLURAL, "prioritylevelconfigurations"])
def test_v1beta1_is_converted_from_stored_v1beta2(catalog: Catalog, names: Names, plural: str) -> None:
    group = names.group("flowcontrol.apiserver")
    assert catalog.groups()[group] == ("v1beta2", "v1beta1")
    older, newer = (catalog.find(group, version, plural) for version in ("v1beta1", "v1beta2"))
    assert older is not None and newer is not None and older.type_name == newer.type_name
    assert older.fields.of == newer.fields.of.replace("v1beta2", "v1beta1")
    spec = older.fields.by_name["spec"].type
    assert spec is not newer.fields.by_name["spec"].type and older.has_status
    assert older.deprecation_warning == (
        f"{group}/v1beta1 {older.kind} is deprecated in v1.23+, unavailable in v1.26+; "
        f"use {group}/v1beta2 {older.kind}"
    )
    assert not newer.deprecation_warning
