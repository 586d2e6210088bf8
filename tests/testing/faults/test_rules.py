"""Which requests a fault rule applies to: matching, ordinals, and decisions that depend on nothing else."""

from __future__ import annotations

import orjson
import pytest

from rewound.testing.faults.parsing import FaultsError, parse_faults
from rewound.testing.faults.rules import MAX_CLIENTS, FaultRequest, Faults, matches
from tests.actors.object_store import Document
from tests.cases import cases

GET = FaultRequest("alice", "operator/1", "get", "", "pods", "", "default", "a")


def faults(*rules: Document, seed: int = 0) -> Faults:
    return parse_faults(orjson.dumps({"seed": seed, "rules": list(rules)}))


def applied(given: Faults, request: FaultRequest, count: int) -> list[int]:
    """The ordinals of the requests, among this many, to which the fault applies."""
    return [number for number in range(1, count + 1) if given.decide(request).fault is not None]


ERROR = {"error": {"code": 503}}


@cases(
    ("when", "expected"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"first": 2}, [1, 2]),
        ({"after": 6}, [7, 8]),
        ({"every": 3}, [3, 6]),
        ({"after": 2, "first": 4, "every": 2}, [4, 6]),
        ({"probability": 0}, []),
        ({"probability": 1}, [1, 2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_rule_applies_to_some_requests_of_a_client(when: Document, expected: list[int]) -> None:
    assert applied(faults({"fault": ERROR, **when}), GET, 8) == expected


def test_each_client_has_ordinals_of_its_own() -> None:
    given = faults({"fault": ERROR, "first": 1})
    others = [GET._replace(user="bob"), GET._replace(user_agent="operator/2")]
    for request in (GET, *others):
        assert applied(given, request, 3) == [1]


def test_decisions_depend_on_seed_rule_client_and_ordinal_alone() -> None:
    rule = {"name": "a", "fault": ERROR, "probability": 0.5}
    alone = applied(faults(rule, seed=7), GET, 64)
    assert alone[:12] == [2, 3, 5, 7, 13, 15, 18, 19, 25, 27, 28, 30]  # on every machine
    mixed = faults({"fault": {"delay": {"seconds": 1}}}, rule, seed=7)
    found = []
    for number in range(1, 65):
        mixed.decide(GET._replace(user="bob"))
        mixed.decide(GET._replace(verb="nothing"))
        if mixed.decide(GET).fault is not None:
            found.append(number)
    assert found == alone
    assert applied(faults(rule, seed=8), GET, 64) != alone
    assert applied(faults({**rule, "name": "b"}, seed=7), GET, 64) != alone
    assert applied(faults(rule, seed=7), GET._replace(user="bob"), 64) != alone


@cases(
    ("match", "request_", "expected"),
    [
        ({}, GET, True),
        ({"user": "alice"}, GET, True),
        ({"user": "system:*"}, GET, False),
        ({"userAgent": "*rator/*"}, GET, True),
        ({"userAgent": "kubectl/*"}, GET, False),
        ({"verbs": ["list", "get"]}, GET, True),
        ({"verbs": ["list"]}, GET, False),
        ({"resources": ["pods"]}, GET, True),
        ({"resources": ["pods"]}, GET._replace(subresource="status"), False),
        ({"resources": ["pods/status"]}, GET._replace(subresource="status"), True),
        ({"resources": ["pods/*"]}, GET._replace(subresource="status"), True),
        ({"resources": ["*"]}, GET._replace(subresource="status"), True),
        ({"resources": ["deployments.apps"]}, GET._replace(resource="deployments", group="apps"), True),
        ({"resources": ["deployments"]}, GET._replace(resource="deployments", group="apps"), True),
        ({"resources": ["pods.metrics"]}, GET, False),
        ({"namespaces": ["kube-*", "default"]}, GET, True),
        ({"namespaces": ["kube-*"]}, GET, False),
        ({"names": ["a"]}, GET, True),
        ({"names": ["b*"]}, GET, False),
    ],
)
def test_rule_matches_requests(match: Document, request_: FaultRequest, expected: bool) -> None:
    assert (faults({"match": match, "fault": ERROR}).decide(request_).fault is not None) is expected


def test_patterns_have_stars() -> None:
    assert matches("a*b*c", "aXbYc")
    assert matches("*", "")
    assert not matches("a*b*c", "aXcYb")
    assert not matches("ab*ba", "aba")


def test_first_rule_wins_and_delays_add_up() -> None:
    given = faults(
        {"name": "a", "fault": {"delay": {"seconds": 1}}},
        {"name": "b", "fault": ERROR, "every": 2},
        {"name": "c", "fault": {"error": {"code": 500}}},
        {"name": "d", "fault": {"delay": {"seconds": 2}}},
    )
    for expected in ("c", "b", "c"):
        decisions = given.decide(GET)
        assert [one.rule.name for one in decisions.delays] == ["a", "d"]
        assert decisions.fault is not None and decisions.fault.rule.name == expected
    assert [(one.matched, one.applied) for one in given.counts] == [(3, 3), (3, 1), (3, 2), (3, 3)]


def test_number_of_remembered_clients_is_bounded() -> None:
    given = faults({"fault": ERROR})
    for number in range(MAX_CLIENTS + 2):
        given.decide(GET._replace(user_agent=str(number)))
    assert len(given.counts[0].ordinals) == MAX_CLIENTS


@cases(
    ("text", "problems"),
    [
        ("[]", ["the rules: must be a mapping"]),
        ("{", ["is neither JSON nor YAML"]),
        ("seed: 1", ["rules: must be a list of rules"]),
        ("rules: []\nmore: 1", ["more: is not a field; known here are seed, rules"]),
        ("rules: [{}]", ["rules[0].fault: is missing"]),
        ("rules: [{fault: {conflict: {}, expired: {}}}]", ["rules[0].fault: must have exactly one of"]),
        ("rules: [{fault: {conflict: {x: 1}}}]", ["rules[0].fault.conflict.x: is not a field"]),
        (
            "rules: [{fault: {conflict: {}}, match: {verbs: [get, fly]}}]",
            [
                "rules[0].match.verbs[0]: 'get' cannot have this fault",
                "rules[0].match.verbs[1]: 'fly' is not",
            ],
        ),
        ("rules: [{fault: {error: {code: 404}}}]", ["rules[0].fault.error.code: must be one of 429, 500"]),
        (
            "rules: [{fault: {error: {code: 429, afterWrite: true}}}]",
            ["rules[0].fault.error.afterWrite: must be false with code 429"],
        ),
        ("rules: [{fault: {delay: {}}}]", ["rules[0].fault.delay: must have seconds or jitterSeconds"]),
        (
            "rules: [{fault: {repeatEvents: {events: 1001}}}]",
            ["rules[0].fault.repeatEvents.events: must be a whole number from 1 to 1000"],
        ),
        ("rules: [{fault: {delay: {seconds: -1}}}]", ["rules[0].fault.delay.seconds: must be a number"]),
        ("rules: [{fault: {stale: {}}}]", ["rules[0].fault.stale: must have either versions or seconds"]),
        (
            "rules: [{fault: {cutWatch: {afterEvents: 3, upToEvents: 1, end: softly}}}]",
            [
                "rules[0].fault.cutWatch.upToEvents: must not be below",
                "rules[0].fault.cutWatch.end: 'softly' is not one of clean, reset, truncated",
            ],
        ),
        ("rules: [{fault: {expired: {}}, probability: 2}]", ["rules[0].probability: must be from 0 to 1"]),
        (
            "rules: [{fault: {expired: {}}, every: 0, first: yes}]",
            ["rules[0].first: must", "rules[0].every: must"],
        ),
        ("rules: [{fault: {expired: {}}, name: 'a b'}]", ["rules[0].name: must be at most 63"]),
        (
            "rules: [{fault: {expired: {}}, name: '1'}, {fault: {expired: {}}}]",
            ["rules[1].name: '1' is the name of another rule too"],
        ),
        (
            "rules: [{fault: {expired: {}}, match: {resources: [pods/, 3], user: 4}}]",
            [
                "rules[0].match.resources[1]: must be a string",
                "rules[0].match.user: must be a string",
                "rules[0].match.resources[0]: 'pods/' is not like",
            ],
        ),
    ],
)
def test_wrong_rules_are_refused_by_field(text: str, problems: list[str]) -> None:
    with pytest.raises(FaultsError) as caught:
        parse_faults(text.encode())
    assert len(caught.value.problems) == len(problems)
    for found, expected in zip(caught.value.problems, problems, strict=True):
        assert found.startswith(expected)
