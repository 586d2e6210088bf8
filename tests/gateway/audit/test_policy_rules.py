"""Which rule of an audit policy matches a request: the first, by user, verb, resource, namespace or path."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rewound.actors.access.authorize import Attributes
from rewound.actors.identity import User
from rewound.actors.names import CLUSTER
from rewound.gateway.audit.policy import LEVEL_NAMES, PolicyError, parse_policy
from tests.cases import cases
from tests.gateway.audit.auditing import HEAD, rules

ALICE = User("alice", groups=("devs", "system:authenticated"))


def request(text: str) -> Attributes:
    """`get group/resource/subresource namespace name`, `-` for what is empty; or `get /path`."""
    verb, what, *rest = text.split()
    if what.startswith("/"):
        return Attributes(ALICE, verb, path=what, is_resource=False)
    group, resource, subresource = (part.replace("-", "") for part in what.split("/"))
    namespace, name = (part.replace("-", "") for part in rest)
    return Attributes(ALICE, verb, group, "v1", resource, subresource, namespace, name, "/x")


CASES = [
    # rule, request, whether it matches
    ("users: [alice]", "get -/pods/- default web", True),
    ("users: [bob]", "get -/pods/- default web", False),
    ("userGroups: [ops, devs]", "get /healthz", True),
    ("userGroups: [ops]", "get /healthz", False),
    ("verbs: [get, list]", "list -/pods/- default -", True),
    ("verbs: [get, list]", "create -/pods/- default -", False),
    ('resources: [{group: ""}]', "get -/pods/status default web", True),
    ('resources: [{group: ""}]', "get apps/deployments/- default web", False),
    ('resources: [{group: "", resources: [pods]}]', "get -/pods/- default web", True),
    ('resources: [{group: "", resources: [pods]}]', "get -/pods/status default web", False),
    ('resources: [{group: "", resources: [pods/status]}]', "get -/pods/status default web", True),
    ('resources: [{group: "", resources: [pods/status]}]', "get -/pods/- default web", False),
    ('resources: [{group: "", resources: ["pods/*"]}]', "get -/pods/status default web", True),
    ('resources: [{group: "", resources: ["pods/*"]}]', "get -/pods/- default web", True),
    ('resources: [{group: "", resources: ["pods/*"]}]', "get -/services/status default web", False),
    ('resources: [{group: "", resources: ["*/status"]}]', "get -/services/status default web", True),
    ('resources: [{group: "", resources: ["*/status"]}]', "get -/services/- default web", False),
    ('resources: [{group: "", resources: ["*"]}]', "get -/services/status default web", True),
    ('resources: [{group: "", resources: ["*"]}]', "get apps/deployments/- default web", False),
    ('resources: [{group: ""}, {group: apps, resources: [deployments]}]', "get apps/deployments/- a b", True),
    ('resources: [{group: "", resources: [pods], resourceNames: [web]}]', "get -/pods/- default web", True),
    ('resources: [{group: "", resources: [pods], resourceNames: [web]}]', "get -/pods/- default db", False),
    ('resources: [{group: "", resources: [pods]}]', "get /api", False),
    ('namespaces: [default, ""]', "get -/nodes/- - n1", True),
    ('namespaces: [default, ""]', "get -/pods/- default web", True),
    ('namespaces: [default, ""]', "get -/pods/- other web", False),
    ('namespaces: [""]', "get /healthz", False),
    ("nonResourceURLs: [/healthz]", "get /healthz", True),
    ("nonResourceURLs: [/healthz]", "get /healthz/ping", False),
    ('nonResourceURLs: ["/healthz*"]', "get /healthz/ping", True),
    ('nonResourceURLs: ["*"]', "get /version", True),
    ('nonResourceURLs: ["*"]', "get -/pods/- default web", False),
    ("users: [alice], verbs: [get], namespaces: [default]", "get -/pods/- default web", True),
    ("users: [alice], verbs: [list], namespaces: [default]", "get -/pods/- default web", False),
]


@cases(("rule", "asked", "matches"), CASES)
def test_rule_matches(rule: str, asked: str, matches: bool) -> None:
    policy = parse_policy(rules(f"level: Request, {rule}", "level: Metadata").encode(), CLUSTER)
    for _ in range(2):  # the second result comes from the cache
        level = LEVEL_NAMES[policy.evaluate(request(asked)).level]
        assert level == ("Request" if matches else "Metadata")


def test_names_do_not_share_a_cached_result() -> None:
    text = rules('level: Request, resources: [{group: "", resources: [pods], resourceNames: [a]}]')
    policy = parse_policy(text.encode(), CLUSTER)
    levels = [policy.evaluate(request(f"get -/pods/- default {name}")).level for name in "aba"]
    assert [LEVEL_NAMES[level] for level in levels] == ["Request", "None", "Request"]


def test_first_matching_rule_decides_and_no_match_records_nothing() -> None:
    text = rules("level: None, users: [alice]", "level: Request, verbs: [get]")
    policy = parse_policy(text.encode(), CLUSTER)
    assert LEVEL_NAMES[policy.evaluate(request("get /healthz")).level] == "None"
    bob = Attributes(User("bob"), "list", path="/healthz", is_resource=False)
    assert LEVEL_NAMES[policy.evaluate(bob).level] == "None"
    assert LEVEL_NAMES[policy.evaluate(replace(bob, verb="get")).level] == "Request"


def test_stages_of_policy_and_rule_are_both_omitted() -> None:
    text = rules("level: Metadata, omitStages: [Panic]", more="omitStages: [RequestReceived]\n")
    assert parse_policy(text.encode(), CLUSTER).rules[0].treatment.omit_stages == {"RequestReceived", "Panic"}


@cases(
    ("default", "rule", "omitted"),
    [
        ("true", "", True),
        ("true", ", omitManagedFields: false", False),
        ("false", ", omitManagedFields: true", True),
    ],
)
def test_rule_overrides_the_managed_fields_of_the_policy(default: str, rule: str, omitted: bool) -> None:
    text = rules(f"level: Metadata{rule}", more=f"omitManagedFields: {default}\n")
    assert parse_policy(text.encode(), CLUSTER).rules[0].treatment.omit_managed_fields is omitted


BAD = [
    (
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]",
        "apiVersion: is 'audit.k8s.io/v1'; write",
    ),
    ("apiVersion: audit.cluster.io/v1\nrules: [{level: None}]", "kind: is missing; write kind: Policy"),
    ("[]", "the file: must be a mapping"),
    ("a: [", "is not YAML"),
    (HEAD, "rules: is empty"),
    (HEAD + "rules: []", "rules: is empty"),
    (HEAD + "rules: {level: None}", "rules: must be a list"),
    (HEAD + "extra: 1\nrules: [{level: None}]", "extra: is not a field of a policy"),
    (rules("users: [alice]"), "rules[0].level: is missing; choose one of None, Metadata"),
    (rules("level: None", "level: All"), "rules[1].level: is 'All'; choose one of"),
    (rules("level: None, user: [alice]"), "rules[0].user: is not a field"),
    (rules("level: None, users: alice"), "rules[0].users: must be a list"),
    (rules("level: None, verbs: [get, 1]"), "rules[0].verbs[1]: must be a string"),
    (rules("level: None, omitStages: [Received]"), "rules[0].omitStages[0]: is 'Received'; choose one of"),
    (rules("level: None, omitManagedFields: maybe"), "rules[0].omitManagedFields: must be true or false"),
    (rules("level: None, resources: [pods]"), "rules[0].resources[0]: must be a mapping"),
    (rules("level: None, resources: [{group: apps/v1}]"), "rules[0].resources[0].group: 'apps/v1' must be"),
    (
        rules('level: None, resources: [{group: "*"}]'),
        "rules[0].resources[0].group: '*' is not the name of a group",
    ),
    (
        rules("level: None, resources: [{group: Apps}]"),
        "resources[0].group: 'Apps' is not the name of a group",
    ),
    (rules('level: None, verbs: [get, "*"]'), "rules[0].verbs[1]: '*' matches nothing; leave the field out"),
    (rules('level: None, users: ["*"]'), "rules[0].users[0]: '*' matches nothing"),
    (rules('level: None, userGroups: ["*"]'), "rules[0].userGroups[0]: '*' matches nothing"),
    (rules('level: None, namespaces: ["*"]'), "rules[0].namespaces[0]: '*' matches nothing"),
    (rules("level: None, resources: [{names: [a]}]"), "rules[0].resources[0].names: is not a field"),
    (
        rules("level: None, resources: [{resourceNames: [a]}]"),
        "resources[0].resourceNames: needs at least one",
    ),
    (
        rules("level: None, resources: [{resources: [po*]}]"),
        "resources[0].resources[0]: 'po*' matches nothing",
    ),
    (rules("level: None, resources: [{resources: [a/b/c]}]"), "resources[0].resources[0]: 'a/b/c' must be"),
    (rules("level: None, namespaces: [a], nonResourceURLs: [/a]"), "rules[0].nonResourceURLs: a rule cannot"),
    (
        rules("level: None, nonResourceURLs: [healthz]"),
        "nonResourceURLs[0]: 'healthz' must begin with a slash",
    ),
    (rules('level: None, nonResourceURLs: ["/a*/b"]'), "nonResourceURLs[0]: '/a*/b' may have a * at its end"),
    (HEAD + "kind: Policy\nrules: [{level: None}]", "kind"),
]


@cases(("text", "message"), BAD)
def test_mistake_is_refused_with_its_field(text: str, message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        parse_policy(text.encode(), CLUSTER)
    assert message in str(refused.value)
