"""RBAC allows what the roles bound to a user or its groups allow, and reports the binding."""

from __future__ import annotations

from inspect import isawaitable

import pytest
import trio
import trio.testing

from rewound.actors.access.authentication.authenticate import ANONYMOUS_USER
from rewound.actors.access.authorization.rbac.authorizer import (
    MAX_CACHED,
    MOST_LISTED,
    RULES_AT_ONCE,
    RULES_PER_ENTRY,
    Rbac,
)
from rewound.actors.access.authorization.rbac.policy import stored_policy
from rewound.actors.access.authorize import Attributes, PathRule, ResourceRule, Rules, Verdict
from rewound.actors.identity import User
from rewound.actors.names import CLUSTER, KUBERNETES, Names
from rewound.journal.records import Event
from tests.actors.access.authorization.policies import (
    account,
    binding,
    group,
    put,
    rbac,
    role,
    rule,
    user,
)
from tests.actors.object_store import open_store
from tests.cases import cases

ALICE = User("alice", groups=("devs", "system:authenticated"))
ROBOT = User("system:serviceaccount:x:robot", groups=("system:serviceaccounts", "system:authenticated"))


def granted(*rules: dict[str, object], namespace: str = "x", to: object = None) -> Rbac:
    """An authorizer with one role, bound to alice in a namespace or in the whole cluster."""
    authorizer = rbac(defaults=False)
    put(authorizer, "roles", role("r", *rules, namespace=namespace))
    put(authorizer, "rolebindings", binding("b", "r", to or user("alice"), namespace=namespace))
    return authorizer


def pods(verb: str = "get", name: str = "", who: User = ALICE, **others: str) -> Attributes:
    given = {"resource": "pods", "namespace": "x", **others}
    return Attributes(who, verb, name=name, **given)


def allowed(authorizer: Rbac, attributes: Attributes) -> bool:
    first = authorizer.authorize(attributes)
    assert authorizer.authorize(attributes) == first, "what is cached is what was decided"
    return first.allowed


@cases(
    ("given", "asked", "expected"),
    [
        (rule("get", "pods"), pods(), True),
        (rule("get", "pods"), pods("list"), False),
        (rule("*", "pods"), pods("list"), True),
        (rule("get", "pods"), pods(group="apps"), False),
        (rule("get", "pods", "*"), pods(group="apps"), True),
        (rule("get", "pods"), pods(subresource="log"), False),
        (rule("get", "pods/log"), pods(subresource="log"), True),
        (rule("get", "pods/log"), pods(), False),
        (rule("get", "*"), pods(subresource="log"), True),
        (rule("get", "*/log"), pods(subresource="log"), True),
        (rule("get", "*/log"), pods(), False),
        (rule("get", "*/log"), pods(subresource="og"), False),
        (rule("get", "pods"), pods(namespace="y"), False),
        (rule("get", "pods"), pods(namespace=""), False),
        (rule("get", "pods", names="a b"), pods(name="b"), True),
        (rule("get", "pods", names="a b"), pods(name="c"), False),
        (rule("create deletecollection list", "pods", names="a"), pods("list"), False),
        (rule("create deletecollection list", "pods", names="a"), pods("create"), False),
        (rule("list", "pods", names="a"), pods("list", name="a"), True),
        (rule("get", "namespaces"), pods(resource="namespaces", name="x"), True),
        (rule("get", "namespaces"), pods(resource="namespaces", namespace="y", name="y"), False),
    ],
)
def test_rules_of_a_role(given: dict[str, object], asked: Attributes, expected: bool) -> None:
    assert allowed(granted(given), asked) is expected


def test_a_rule_without_names_allows_what_one_with_names_does_not() -> None:
    authorizer = granted(rule("get", "pods", names="a"), rule("get", "pods", names="b"))
    assert allowed(authorizer, pods(name="b")) and not allowed(authorizer, pods(name="c"))
    put(authorizer, "roles", role("r", rule("get", "pods", names="a"), rule("get", "pods"), namespace="x"))
    assert allowed(authorizer, pods(name="c"))


@cases(
    ("subject", "who", "expected"),
    [
        (group("devs"), ALICE, 'Group "devs"'),
        (user("alice"), ALICE, 'User "alice"'),
        (account("robot"), ROBOT, 'ServiceAccount "robot/x"'),
        (account("robot", "x"), ROBOT, 'ServiceAccount "robot/x"'),
        (account("robot", "y"), ROBOT, None),
        (user("system:serviceaccount:x:robot"), ROBOT, 'User "system:serviceaccount:x:robot"'),
        (user("devs"), ALICE, None),
        (group("alice"), ALICE, None),
        (user("*"), ALICE, None),
        (group("*"), ANONYMOUS_USER, None),
        (user("*"), ANONYMOUS_USER, None),
        (user("system:anonymous"), ANONYMOUS_USER, 'User "system:anonymous"'),
        (group("system:unauthenticated"), ANONYMOUS_USER, 'Group "system:unauthenticated"'),
    ],
)
def test_binding_applies_to_its_subjects_only(subject: object, who: User, expected: str | None) -> None:
    decision = granted(rule("get", "pods"), to=subject).authorize(pods(who=who))
    assert decision.allowed is (expected is not None)
    wanted = f'RBAC: allowed by RoleBinding "b/x" of Role "r" to {expected}' if expected else ""
    assert decision.reason == wanted


def test_reason_names_the_first_subject_that_is_the_user() -> None:
    authorizer = rbac(defaults=False)
    put(authorizer, "clusterroles", role("r", rule("get", "pods")))
    put(authorizer, "clusterrolebindings", binding("b", "r", group("ops"), group("devs"), user("alice")))
    decision = authorizer.authorize(pods())
    assert decision.reason == 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "devs"'


def test_a_role_binding_to_a_cluster_role_grants_it_in_its_namespace_only() -> None:
    authorizer = rbac(defaults=False)
    put(authorizer, "clusterroles", role("r", rule("get", "pods")))
    bound = binding("b", "r", user("alice"), namespace="x", kind="ClusterRole")
    put(authorizer, "rolebindings", bound)
    assert allowed(authorizer, pods()) and not allowed(authorizer, pods(namespace="y"))
    put(authorizer, "clusterrolebindings", binding("b", "r", user("alice")))
    assert allowed(authorizer, pods(namespace="y")) and allowed(authorizer, pods(namespace=""))


def test_paths_are_granted_by_cluster_role_bindings_only() -> None:
    authorizer = rbac(defaults=False)
    put(authorizer, "clusterroles", role("r", {"verbs": ["get"], "nonResourceURLs": ["/logs"]}))
    put(authorizer, "rolebindings", binding("b", "r", user("alice"), namespace="x", kind="ClusterRole"))
    asked = Attributes(ALICE, "get", path="/logs", is_resource=False)
    assert not allowed(authorizer, asked)
    put(authorizer, "clusterrolebindings", binding("b", "r", user("alice")))
    assert allowed(authorizer, asked)


def test_paths_match_exactly_or_by_a_trailing_star() -> None:
    authorizer = rbac(defaults=False)
    urls = {"verbs": ["get"], "nonResourceURLs": ["/logs", "/x/*"]}
    put(authorizer, "clusterroles", role("r", urls))
    put(authorizer, "clusterrolebindings", binding("b", "r", user("alice")))
    for path, expected in (
        ("/logs", True),
        ("/logs/", False),
        ("/x", False),
        ("/x/", True),
        ("/x/a/b", True),
    ):
        assert allowed(authorizer, Attributes(ALICE, "get", path=path, is_resource=False)) is expected
    assert not allowed(authorizer, Attributes(ALICE, "post", path="/logs", is_resource=False))


def test_rights_go_with_the_binding_and_with_the_role() -> None:
    authorizer = granted(rule("get", "pods"))
    assert allowed(authorizer, pods())
    authorizer.policy.remove_role(("x", "r"))
    authorizer.policy.changed()
    refused = authorizer.authorize(pods())
    assert refused.verdict is Verdict.NO_OPINION
    assert refused.reason == 'RBAC: role.rbac.authorization.cluster.io "r" not found'
    put(authorizer, "roles", role("r", rule("get", "pods"), namespace="x"))
    assert allowed(authorizer, pods())
    authorizer.policy.remove_binding(("x", "b"))
    authorizer.policy.changed()
    assert not allowed(authorizer, pods())


def test_a_changed_binding_has_its_new_subjects_only() -> None:
    authorizer = granted(rule("get", "pods"))
    put(authorizer, "rolebindings", binding("b", "r", group("ops"), namespace="x"))
    assert not allowed(authorizer, pods())
    assert allowed(authorizer, pods(who=User("bob", groups=("ops",))))


def test_cached_decisions_depend_on_the_groups_and_the_namespace() -> None:
    """A caller may impersonate, or review, the same name with other groups."""
    authorizer = granted(rule("get", "pods"), to=group("devs"))
    asked = [ALICE, User("alice", groups=("system:authenticated",)), User("alice"), ALICE]
    for _ in range(2):
        assert [allowed(authorizer, pods(who=one)) for one in asked] == [True, False, False, True]
        assert [allowed(authorizer, pods(namespace=one)) for one in ("x", "y", "")] == [True, False, False]
    paths = rbac(defaults=False)
    put(
        paths,
        "clusterroles",
        {"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"]}]},
    )
    put(paths, "clusterrolebindings", binding("b", "r", group("devs")))
    seen = [allowed(paths, Attributes(one, "get", path="/a", is_resource=False)) for one in asked]
    assert seen == [True, False, False, True]


def test_names_of_objects_take_no_place_in_the_cache() -> None:
    authorizer = granted(rule("get", "pods", names="n1 n2"))
    found = [authorizer.authorize(pods(name=f"n{number}")).allowed for number in range(4)]
    assert found == [False, True, True, False] and len(authorizer._cached) == 1


def test_cache_is_bounded() -> None:
    authorizer = granted(rule("get", "pods"))
    for number in range(MAX_CACHED + 10):
        authorizer.authorize(pods(resource=f"r{number}"))
    many = User("alice", groups=tuple(map(str, range(100))))
    authorizer.authorize(pods(who=many))
    authorizer.authorize(pods(namespace="n" * 1000))
    assert len(authorizer._cached) <= MAX_CACHED
    assert not any(many.groups in key or "n" * 1000 in str(key) for key in authorizer._cached)


@pytest.mark.parametrize("names", [CLUSTER, KUBERNETES])
async def test_default_roles_let_everybody_review_his_own_access(names: Names) -> None:
    found = await rbac(names).rules(ALICE, "x")
    reviews = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
    assert found.resources == (ResourceRule(("create",), (names.group("authorization"),), reviews),)
    assert all(one.verbs == ("get",) for one in found.paths)


async def test_rules_are_in_the_order_of_bindings_with_cluster_wide_ones_first() -> None:
    authorizer = granted(rule("get", "pods", names="a"))
    put(authorizer, "rolebindings", binding("a", "missing", user("alice"), namespace="x"))
    put(
        authorizer,
        "clusterroles",
        role("c", rule("list", "nodes"), {"verbs": ["get"], "nonResourceURLs": ["/"]}),
    )
    put(authorizer, "clusterrolebindings", binding("z", "c", group("devs")))
    found = await authorizer.rules(ALICE, "x")
    assert found.resources == (
        ResourceRule(("list",), ("",), ("nodes",)),
        ResourceRule(("get",), ("",), ("pods",), ("a",)),
    )
    assert found.paths == (PathRule(("get",), ("/",)),)
    assert (
        found.errors == ('role.rbac.authorization.cluster.io "missing" not found',) and not found.incomplete
    )


async def test_rules_that_are_very_many_are_listed_in_part() -> None:
    many = [rule("get", "pods", names=f"p{number}") for number in range(MOST_LISTED // 4)]
    authorizer = granted(*many)
    found = await authorizer.rules(ALICE, "x")
    assert (len(found.resources), found.incomplete, found.errors) == (len(many), False, ())
    authorizer = granted(*many, *many)
    found = await authorizer.rules(ALICE, "x")
    assert (len(found.resources), found.incomplete) == (len(many), True)
    assert found.errors[0].startswith("the rules have more than 50000 verbs")


class CountedSubject(dict[str, str]):
    """A subject of a binding that counts how often it is read."""

    reads = 0

    def __getitem__(self, field: str) -> str:
        CountedSubject.reads += 1
        return super().__getitem__(field)


def test_thousands_of_named_rules_do_not_read_the_subjects_each() -> None:
    """Otherwise users who may write roles could block the server with rules times subjects."""
    rules = [rule("get", "pods", names=f"p{number}") for number in range(500)]
    authorizer = granted(*rules)
    subjects = [CountedSubject(kind="User", name=f"u{number}") for number in range(100)]
    put(authorizer, "rolebindings", binding("b", "r", *subjects, user("alice"), namespace="x"))
    CountedSubject.reads = 0
    decisions = [authorizer.authorize(pods(name=f"p{number}")) for number in range(500)]
    assert all(one.allowed and 'to User "alice"' in one.reason for one in decisions)
    assert CountedSubject.reads <= 3 * len(subjects)


def test_decisions_with_many_named_rules_count_as_several() -> None:
    rules = [rule("*", "*", names=f"p{number}") for number in range(10 * RULES_PER_ENTRY)]
    authorizer = granted(*rules)
    for number in range(MAX_CACHED // 5):
        assert authorizer.authorize(pods(name="p1", version=f"v{number}")).allowed
    assert len(authorizer._cached) <= MAX_CACHED // 11


async def test_many_rules_are_listed_without_holding_the_loop() -> None:
    """A thread combines them, while other tasks run."""
    authorizer = granted(*[rule("get", f"r{number}") for number in range(RULES_AT_ONCE + 1)])
    found: list[Rules] = []

    async def list_rules() -> None:
        found.append(await authorizer.rules(ALICE, "x"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(list_rules)
        await trio.testing.wait_all_tasks_blocked()
        put(authorizer, "roles", role("r", namespace="x"))  # lists what was bound when the review began
    assert len(found[0].resources) == RULES_AT_ONCE + 1


async def test_decision_from_many_rules_is_not_cached_if_they_change_meanwhile() -> None:
    """A thread builds it from what was bound when the request arrived."""
    authorizer = granted(*[rule("get", "pods", names=f"p{number}") for number in range(RULES_AT_ONCE + 1)])
    decisions: list[bool] = []

    async def decide() -> None:
        pending = authorizer.authorize(pods(name="p7"))
        decisions.append((await pending if isawaitable(pending) else pending).allowed)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(decide)
        await trio.testing.wait_all_tasks_blocked()
        put(authorizer, "roles", role("r", namespace="x"))
    await decide()
    assert decisions == [True, False]


async def test_decision_from_many_rules_is_cached() -> None:
    authorizer = granted(*[rule("get", "pods", names=f"p{number}") for number in range(RULES_AT_ONCE + 1)])
    pending = authorizer.authorize(pods(name="p7"))
    assert isawaitable(pending) and (await pending).allowed
    assert authorizer.authorize(pods(name="p8")).allowed and not authorizer.authorize(pods(name="q")).allowed


async def test_object_that_cannot_be_compiled_gives_no_rights_and_delays_no_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_store() as store:
        await store.create("clusterroles", role("r", rule("get", "pods")))
        for name, who in (("b", "alice"), ("c", "bob")):
            await store.create("clusterrolebindings", binding(name, "r", user(who)))
        authorizer = Rbac(stored_policy(CLUSTER, store.journal, store.feed))
        assert allowed(authorizer, pods()) and allowed(authorizer, pods(who=User("bob")))
        bindings = store.journal.type_id("clusterrolebindings.rbac.authorization.cluster.io")
        offset = store.feed.head
        broken = Event(offset + 1, bindings, "update", "", "c", offset, False, 0, "u", "m", b"", b"{}")
        deleted = broken._replace(offset=offset + 2, verb="delete", name="b", removed=True)
        store.feed.publish([broken, deleted])
        assert "the role or binding 'c' cannot be compiled" in caplog.text
        assert not allowed(authorizer, pods()) and not allowed(authorizer, pods(who=User("bob")))


async def test_role_whose_change_cannot_be_read_gives_no_rights() -> None:
    async with open_store() as store:
        await store.create("clusterroles", role("r", rule("get", "pods")))
        await store.create("clusterrolebindings", binding("b", "r", user("alice")))
        authorizer = Rbac(stored_policy(CLUSTER, store.journal, store.feed))
        assert allowed(authorizer, pods())
        roles = store.journal.type_id("clusterroles.rbac.authorization.cluster.io")
        offset = store.feed.head
        store.feed.publish([Event(offset + 1, roles, "update", "", "r", 1, False, 0, "u", "m", b"", b"{")])
        assert not allowed(authorizer, pods())
