"""Roles and ClusterRoles: required parts of a rule, invalid combinations, and aggregation."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.validation import collect
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions, distinct
from tests.cases import cases

PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
URLS = {"nonResourceURLs": ["/healthz", "/metrics/*"], "verbs": ["get"]}
NO_VERBS = "Required value: verbs must contain at least one value"


def role(*rules: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "rules": list(rules)}


@cases("plural", ["roles", "clusterroles"])
def test_rules_are_stored_as_sent(kinds: Definitions, plural: str) -> None:
    rule = {
        "verbs": ["*"],
        "apiGroups": ["", "*"],
        "resources": ["pods/log", "deployments/*"],
        "resourceNames": ["a", "b"],
    }
    assert kinds.decode(plural, role(rule)) == role(rule)
    assert kinds.create_causes(plural, role(rule)) == []


@cases("plural", ["roles", "clusterroles"])
def test_absent_rules_are_null(kinds: Definitions, plural: str) -> None:
    assert kinds.decode(plural, {"metadata": {"name": "a"}})["rules"] is None
    assert kinds.create_causes(plural, {"metadata": {"name": "system:x"}}) == []


@cases(
    ("rule", "expected"),
    [
        ({**PODS, "verbs": []}, [("verbs", NO_VERBS)]),
        (
            {"resources": ["pods"], "verbs": ["get"]},
            [("apiGroups", "Required value: resource rules must supply at least one api group")],
        ),
        (
            {"apiGroups": [""], "verbs": ["get"]},
            [("resources", "Required value: resource rules must supply at least one resource")],
        ),
        (
            {},
            [
                ("verbs", NO_VERBS),
                ("apiGroups", "Required value: resource rules must supply at least one api group"),
                ("resources", "Required value: resource rules must supply at least one resource"),
            ],
        ),
    ],
)
@cases("plural", ["roles", "clusterroles"])
def test_create_reports_invalid_rules(
    kinds: Definitions, plural: str, rule: Any, expected: list[tuple[str, str]]
) -> None:
    assert kinds.create_causes(plural, role(PODS, rule)) == [
        (f"rules[1].{field}", message) for field, message in expected
    ]


def test_non_resource_urls_are_only_for_cluster_roles_and_exclude_resources(kinds: Definitions) -> None:
    assert kinds.create_causes("clusterroles", role(URLS)) == []
    assert kinds.create_causes("clusterroles", role({**URLS, "verbs": []})) == [("rules[0].verbs", NO_VERBS)]
    mixed = (
        "rules[0].nonResourceURLs",
        'Invalid value: []string{"/healthz", "/metrics/*"}: '
        "rules cannot apply to both regular resources and non-resource URLs",
    )
    named = {**URLS, "resourceNames": ["a"]}
    assert kinds.create_causes("clusterroles", role({**PODS, **URLS})) == [mixed]
    assert kinds.create_causes("clusterroles", role(named)) == [mixed]
    namespaced = (
        "rules[0].nonResourceURLs",
        'Invalid value: []string{"/healthz", "/metrics/*"}: '
        "namespaced rules cannot apply to non-resource URLs",
    )
    assert kinds.create_causes("roles", role(URLS)) == [namespaced]
    assert kinds.create_causes("roles", role({**PODS, **URLS})) == [namespaced, mixed]


def aggregated(*selectors: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "aggregationRule": {"clusterRoleSelectors": list(selectors)}}


def test_aggregation_rule_is_validated(kinds: Definitions) -> None:
    field = "aggregationRule.clusterRoleSelectors"
    assert kinds.create_causes("clusterroles", aggregated({"matchLabels": {"a": "b"}})) == []
    assert kinds.create_causes("clusterroles", aggregated({})) == []
    none = "Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"
    assert kinds.create_causes("clusterroles", aggregated()) == [(field, none)]
    wrong = {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}
    assert kinds.create_causes("clusterroles", aggregated({}, wrong)) == [
        (
            f"{field}[1].matchExpressions[0].values",
            "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (f"{field}[1]", 'Invalid value: "null": invalid label selector.'),
    ]
    value = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["not a value"]}]}
    assert kinds.create_causes("clusterroles", aggregated(value)) == [
        (f"{field}[0]", 'Invalid value: "null": invalid label selector.')
    ]


@cases("plural", ["roles", "clusterroles"])
def test_update_reports_errors_twice(kinds: Definitions, plural: str) -> None:
    _, causes = kinds.update(plural, role(PODS), role({**PODS, "verbs": []}))
    assert causes == [("rules[0].verbs", NO_VERBS)] * 2
    assert kinds.update(plural, role(PODS), role())[1] == []


@cases("name", ["system:node", "A_b", "a b"])
def test_name_is_any_path_segment(kinds: Definitions, name: str) -> None:
    assert kinds.create_causes("clusterroles", {"metadata": {"name": name}}) == []


@cases("name", [".", "..", "a/b", "a%b"])
def test_name_that_is_no_path_segment_is_invalid(kinds: Definitions, name: str) -> None:
    assert [field for field, _ in distinct(kinds.create_causes("roles", {"metadata": {"name": name}}))] == [
        "metadata.name"
    ]


def test_update_may_create_and_delete_returns_a_status(kinds: Definitions) -> None:
    for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings"):
        assert (
            kinds[plural].strategy.allow_create_on_update
            and kinds[plural].strategy.allow_unconditional_update
        )
        assert not kinds[plural].deletion.returns_object and not kinds[plural].has_status
        assert kinds[plural].namespaced is not plural.startswith("cluster")


STAR = "'*' may only be the full final step of a path"


def test_star_is_the_full_final_step_of_a_path(kinds: Definitions) -> None:
    urls = ["*", "/*", "/a/*", "/a", "/x*", "/x/*/y", "**"]
    rule = {"nonResourceURLs": urls, "verbs": ["get"]}
    assert kinds.create_causes("clusterroles", role(rule)) == [
        (f"rules[0].nonResourceURLs[{index}]", f'Invalid value: "{urls[index]}": {STAR}')
        for index in (4, 5, 6)
    ]


def test_paths_that_are_stored_may_stay(kinds: Definitions) -> None:
    kind = kinds["clusterroles"]
    before = kinds.decode("clusterroles", role({"nonResourceURLs": ["/x*"], "verbs": ["get"]}))
    for url, refused in (("/x*", False), ("/y*", True)):
        after = kinds.decode("clusterroles", role({"nonResourceURLs": [url], "verbs": ["put"]}))
        for one in (before, after):
            one["metadata"] |= {"resourceVersion": "1", "uid": "u"}
        assert bool(collect(kind.strategy.validate_update, after, before)) is refused, url


def test_aggregated_role_may_have_stored_paths_of_others(kinds: Definitions) -> None:
    aggregation = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    document = role({"nonResourceURLs": ["/x*"], "verbs": ["get"]}) | {"aggregationRule": aggregation}
    assert kinds.create_causes("clusterroles", document) == []


@cases(("version", "times"), [("1.34", 2), ("1.35", 1)])
def test_updates_are_validated_twice_before_1_35(version: str, times: int) -> None:
    kinds = Definitions(built_in(KUBERNETES, choose_release(version)))
    _, causes = kinds.update("roles", role(PODS), role({**PODS, "verbs": []}))
    assert causes == [("rules[0].verbs", NO_VERBS)] * times
