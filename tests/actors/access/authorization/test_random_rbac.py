"""RBAC agrees with a naive evaluation of its rules, whatever is cached, compiled or changed in between."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rewound.actors.access.authorization.rbac.authorizer import Rbac
from rewound.actors.access.authorization.rbac.roles import uncovered
from rewound.actors.access.authorize import Attributes, Decision
from rewound.actors.identity import User
from rewound.actors.messages import Object
from tests.actors.access.authorization.policies import account, binding, group, put, rbac, user

VERBS = ("get", "list", "create", "*")
GROUPS = ("", "apps", "*")
RESOURCES = ("pods", "pods/log", "deployments", "deployments/scale", "*/scale", "*/log", "*")
NAMES = ("a", "b", "")
PATHS = ("/a", "/a/b", "/a/*", "/*", "*")
NAMESPACES = ("", "x", "y")
USERS = tuple(
    User(name, groups=groups)
    for name in ("alice", "system:serviceaccount:x:robot", "*")
    for groups in ((), ("devs",), ("devs", "ops"), ("*",))
)


def some(chance: random.Random, words: tuple[str, ...]) -> list[str]:
    return chance.sample(words, chance.randint(1, 2))


def random_rule(chance: random.Random, *, paths: bool) -> Object:
    if paths and chance.random() < 0.3:
        return {"verbs": some(chance, VERBS), "nonResourceURLs": some(chance, PATHS)}
    made: Object = {
        "verbs": some(chance, VERBS),
        "apiGroups": some(chance, GROUPS),
        "resources": some(chance, RESOURCES),
    }
    return {**made, "resourceNames": some(chance, NAMES)} if chance.random() < 0.4 else made


class Policy:
    """Roles and bindings as written, and a search through all of them."""

    def __init__(self) -> None:
        self.roles: dict[tuple[str, str], list[Object]] = {}
        self.bindings: dict[tuple[str, str], Object] = {}

    def allows(self, asked: Attributes) -> bool:
        return any(
            _allows(rule, asked)
            for (where, _), one in self.bindings.items()
            if where in ("", asked.namespace)
            and any(_is(each, asked.user, where) for each in one["subjects"])
            for rule in self.roles.get(_role_of(where, one["roleRef"]), ())
        )


def _role_of(where: str, reference: Object) -> tuple[str, str]:
    return ("" if reference["kind"] == "ClusterRole" else where), reference["name"]


def _is(subject: Object, who: User, where: str) -> bool:
    if subject["kind"] == "User":
        return bool(subject["name"] == who.name)
    if subject["kind"] == "Group":
        return subject["name"] in who.groups
    namespace = subject.get("namespace") or where
    return bool(namespace) and who.name == f"system:serviceaccount:{namespace}:{subject['name']}"


def _allows(rule: Object, asked: Attributes) -> bool:
    if not {asked.verb, "*"} & set(rule["verbs"]):
        return False
    if not asked.is_resource:
        return any(_covers_path(one, asked.path) for one in rule.get("nonResourceURLs", ()))
    names = rule.get("resourceNames", [])
    return (
        bool({asked.group, "*"} & set(rule.get("apiGroups", ())))
        and any(_covers_resource(one, _combined(asked)) for one in rule.get("resources", ()))
        and (not names or asked.name in names)
    )


def _combined(asked: Attributes) -> str:
    return f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource


def _covers_resource(given: str, wanted: str) -> bool:
    _, slash, subresource = wanted.partition("/")
    return given in ("*", wanted) or (bool(slash) and given == f"*/{subresource}")


def _covers_path(given: str, wanted: str) -> bool:
    return given == wanted or (given.endswith("*") and wanted.startswith(given.rstrip("*")))


def change(chance: random.Random, policy: Policy, authorizer: Rbac) -> None:
    """Write or remove a role or a binding, in the plain policy and in the compiled one."""
    where, name = chance.choice(NAMESPACES), chance.choice("pqr")
    metadata: dict[str, Any] = {"name": name, **({"namespace": where} if where else {})}
    if chance.random() < 0.5:
        if chance.random() < 0.2:
            policy.roles.pop((where, name), None)
            authorizer.policy.remove_role((where, name))
            authorizer.policy.changed()
            return
        rules = [random_rule(chance, paths=not where) for _ in range(chance.randint(0, 3))]
        policy.roles[where, name] = rules
        put(authorizer, "roles", {"metadata": metadata, "rules": rules})
    elif chance.random() < 0.2:
        policy.bindings.pop((where, name), None)
        authorizer.policy.remove_binding((where, name))
        authorizer.policy.changed()
    else:
        subjects = [
            user("alice"),
            user("*"),
            user("system:serviceaccount:x:robot"),
            group("devs"),
            group("*"),
            account("robot", "x"),
            account("robot"),
        ]
        kind = chance.choice(("Role", "ClusterRole")) if where else "ClusterRole"
        chosen = chance.sample(subjects, chance.randint(0, 2))
        made = binding(name, chance.choice("pqr"), *chosen, namespace=where, kind=kind)
        policy.bindings[where, name] = made
        put(authorizer, "rolebindings", made)


def random_request(chance: random.Random) -> Attributes:
    who, verb = chance.choice(USERS), chance.choice(("get", "list", "create", "delete"))
    if chance.random() < 0.2:
        return Attributes(
            who, verb, path=chance.choice(("/a", "/a/", "/a/b", "/b", "/a/b/c")), is_resource=False
        )
    resource, _, subresource = chance.choice(
        ("pods", "pods/log", "deployments", "deployments/scale")
    ).partition("/")
    api_group, where, name = chance.choice(("", "apps")), chance.choice(NAMESPACES), chance.choice(NAMES)
    return Attributes(who, verb, api_group, "v1", resource, subresource, where, name)


@pytest.mark.parametrize("seed", range(4))
def test_decisions_agree_with_a_search_of_all_rules(seed: int) -> None:
    chance, policy, authorizer = random.Random(seed), Policy(), rbac(defaults=False)
    seen = set()
    for _ in range(300):
        change(chance, policy, authorizer)
        for _ in range(8):
            asked = random_request(chance)
            found = authorizer.authorize(asked)
            assert isinstance(found, Decision)
            assert found.allowed == policy.allows(asked), asked
            seen.add(found.allowed)
    assert seen == {True, False}


@pytest.mark.parametrize("seed", range(4))
def test_missing_rights_are_those_that_no_rule_has(seed: int) -> None:
    """Each part of a rule needs one granted rule that covers all of it."""
    chance = random.Random(seed)
    complete = 0
    for _ in range(500):
        owned = [random_rule(chance, paths=True) for _ in range(chance.randint(0, 4))]
        wanted = [random_rule(chance, paths=True) for _ in range(chance.randint(1, 2))]
        missing = list(uncovered(owned, wanted))
        expected = [part for rule in wanted for part in _broken_down(rule) if not _is_covered(owned, part)]
        assert bool(missing) == bool(expected), (owned, wanted)
        found = {str(part) for rule in missing for part in _broken_down(rule)}
        assert found == {str(part) for part in expected}, (owned, wanted)
        complete += not missing
    assert 0 < complete < 500


def _broken_down(rule: Object) -> list[Object]:
    """A rule of one verb, group, resource and name for each combination."""
    if "nonResourceURLs" in rule:
        return [
            {"verbs": [verb], "nonResourceURLs": [url]}
            for verb in rule["verbs"]
            for url in rule["nonResourceURLs"]
        ]
    parts: list[Object] = [
        {"verbs": [verb], "apiGroups": [one], "resources": [resource]}
        for verb in rule["verbs"]
        for one in rule["apiGroups"]
        for resource in rule["resources"]
    ]
    names = rule.get("resourceNames", [])
    return [{**part, "resourceNames": [name]} for part in parts for name in names] if names else parts


def _is_covered(owned: list[Object], part: Object) -> bool:
    (verb,) = part["verbs"]
    for rule in owned:
        if not {verb, "*"} & set(rule["verbs"]):
            continue
        if "nonResourceURLs" in part:
            if any(_covers_path(one, part["nonResourceURLs"][0]) for one in rule.get("nonResourceURLs", ())):
                return True
            continue
        names = rule.get("resourceNames", [])
        if (
            {part["apiGroups"][0], "*"} & set(rule.get("apiGroups", ()))
            and any(_covers_resource(one, part["resources"][0]) for one in rule.get("resources", ()))
            and (not names or part.get("resourceNames", [None])[0] in names)
        ):
            return True
    return False
