"""ABAC: what the lines of a policy file allow, and to which users."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from rewound.actors.access.authentication.authenticate import ANONYMOUS_USER
from rewound.actors.access.authorization.abac import Abac, PolicyFileError, read_policies
from rewound.actors.access.authorize import Attributes, Decision, PathRule, ResourceRule, Rules, Verdict
from rewound.actors.identity import User
from tests.cases import cases

ALICE = User("alice", groups=("devs", "system:authenticated"))
BOB = User("bob", groups=("system:authenticated",))
EVERYTHING = {"namespace": "*", "resource": "*", "apiGroup": "*", "nonResourcePath": "*"}


def policy(**spec: object) -> dict[str, object]:
    return {"apiVersion": "abac.authorization.cluster.io/v1beta1", "kind": "Policy", "spec": spec}


def abac(tmp_path: Path, *documents: object) -> Abac:
    file = tmp_path / "policies.jsonl"
    file.write_bytes(b"# comment\n\n" + b"\n".join(orjson.dumps(one) for one in documents))
    return Abac(read_policies(file))


def pods(user: User, verb: str = "get", namespace: str = "x", group: str = "") -> Attributes:
    return Attributes(user, verb, group, "v1", "pods", "log", namespace, "a")


def path(user: User, where: str, verb: str = "get") -> Attributes:
    return Attributes(user, verb, path=where, is_resource=False)


def test_user_and_group_must_both_match(tmp_path: Path) -> None:
    only = abac(tmp_path, policy(user="alice", group="devs", **EVERYTHING))
    assert only.authorize(pods(ALICE)).allowed
    assert not only.authorize(pods(User("alice"))).allowed
    assert not only.authorize(pods(User("eve", groups=("devs",)))).allowed
    group = abac(tmp_path, policy(group="devs", **EVERYTHING))
    assert group.authorize(pods(User("eve", groups=("devs",)))).allowed
    assert group.authorize(pods(BOB)) == Decision(Verdict.NO_OPINION, "No policy matched.")


def test_policy_without_user_and_group_applies_to_no_user(tmp_path: Path) -> None:
    assert not abac(tmp_path, policy(**EVERYTHING)).authorize(pods(ALICE)).allowed


@pytest.mark.parametrize("field", ["user", "group"])
def test_wildcard_subject_does_not_include_anonymous_requests(tmp_path: Path, field: str) -> None:
    everyone = abac(tmp_path, policy(**{field: "*"}, **EVERYTHING))
    assert everyone.authorize(pods(BOB)).allowed and everyone.authorize(path(BOB, "/metrics")).allowed
    assert not everyone.authorize(pods(ANONYMOUS_USER)).allowed
    named = abac(tmp_path, policy(group="system:unauthenticated", **EVERYTHING))
    assert named.authorize(pods(ANONYMOUS_USER)).allowed and not named.authorize(pods(BOB)).allowed


def test_namespace_resource_and_group_must_match(tmp_path: Path) -> None:
    one = abac(tmp_path, policy(user="alice", namespace="x", resource="pods"))
    assert one.authorize(pods(ALICE)).allowed and one.authorize(pods(ALICE, "delete")).allowed
    assert not one.authorize(pods(ALICE, namespace="y")).allowed
    assert not one.authorize(pods(ALICE, group="apps")).allowed
    assert not one.authorize(path(ALICE, "/api")).allowed
    assert not one.authorize(Attributes(ALICE, "get", "", "v1", "secrets", "", "x", "a")).allowed


def test_readonly_allows_reading_verbs_only(tmp_path: Path) -> None:
    reader = abac(tmp_path, policy(user="alice", readonly=True, **EVERYTHING))
    assert all(reader.authorize(pods(ALICE, verb)).allowed for verb in ("get", "list", "watch"))
    assert not any(reader.authorize(pods(ALICE, verb)).allowed for verb in ("create", "delete", "patch"))
    assert reader.authorize(path(ALICE, "/x")).allowed
    assert not reader.authorize(path(ALICE, "/x", "post")).allowed


def test_paths_match_exactly_or_by_prefix(tmp_path: Path) -> None:
    paths = abac(
        tmp_path,
        policy(user="alice", nonResourcePath="/metrics"),
        policy(user="bob", nonResourcePath="/apis/*"),
    )
    assert paths.authorize(path(ALICE, "/metrics")).allowed
    assert not paths.authorize(path(ALICE, "/metrics/x")).allowed
    assert (
        paths.authorize(path(BOB, "/apis/apps")).allowed and not paths.authorize(path(BOB, "/apis")).allowed
    )
    assert not paths.authorize(pods(BOB)).allowed


def test_lines_without_version_match_everything_where_they_are_empty(tmp_path: Path) -> None:
    old = abac(tmp_path, {"user": "alice"}, {"user": "bob", "resource": "pods", "readonly": True})
    assert old.authorize(pods(ALICE, "delete", group="apps")).allowed
    assert old.authorize(path(ALICE, "/metrics")).allowed
    assert old.authorize(pods(BOB)).allowed and not old.authorize(pods(BOB, "delete")).allowed
    assert not old.authorize(path(BOB, "/metrics")).allowed


@cases("domain", ["cluster.io", "kubernetes.io"])
def test_policies_of_v0_are_as_those_without_a_version(domain: str, tmp_path: Path) -> None:
    version = {"apiVersion": f"abac.authorization.{domain}/v0", "kind": "Policy"}
    old = abac(
        tmp_path,
        {**version, "user": "alice"},
        {**version, "group": "*", "resource": "pods", "readonly": True},
    )
    assert old.authorize(pods(ALICE, "delete", group="apps")).allowed
    assert old.authorize(path(ALICE, "/metrics")).allowed
    assert old.authorize(pods(BOB)).allowed and not old.authorize(pods(BOB, "delete")).allowed
    assert not old.authorize(path(BOB, "/metrics")).allowed
    with pytest.raises(PolicyFileError, match="the field 'spec' is not known"):
        abac(tmp_path, {**version, "spec": {"user": "alice"}})
    everyone = abac(tmp_path, {})
    assert everyone.authorize(pods(BOB)).allowed and not everyone.authorize(pods(ANONYMOUS_USER)).allowed


def test_names_of_the_other_dialect_are_read(tmp_path: Path) -> None:
    line = {**policy(user="alice", **EVERYTHING), "apiVersion": "abac.authorization.kubernetes.io/v1beta1"}
    assert abac(tmp_path, line).authorize(pods(ALICE)).allowed


async def test_rules_of_a_user_in_a_namespace(tmp_path: Path) -> None:
    authorizer = abac(
        tmp_path,
        policy(group="devs", namespace="x", resource="pods", readonly=True),
        policy(user="alice", namespace="*", resource="*", apiGroup="*", nonResourcePath="*"),
        policy(user="alice", namespace="y", resource="secrets"),
        policy(user="bob", namespace="x", resource="secrets"),
    )
    assert await authorizer.rules(ALICE, "x") == Rules(
        (
            ResourceRule(("get", "list", "watch"), ("",), ("pods",)),
            ResourceRule(("*",), ("*",), ("*",)),
        ),
        (PathRule(("*",), ("*",)),),
    )


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"{", "is not JSON"),
        (b"[]", "is not an object"),
        (b'{"kind":"Role"}', "kind 'Role' is not known"),
        (b'{"kind":"Policy","apiVersion":"x/v1"}', "apiVersion 'x/v1' is not known; use abac"),
        (b'{"user":3}', "user is not a string"),
        (b'{"readonly":"yes"}', "readonly is neither true nor false"),
        # Both would allow everything to every authenticated user.
        (b'{"apiVersion":"abac.authorization.cluster.io/v1beta1","spec":{"user":"a"}}', "the field 'spec'"),
        (b'{"usr":"a","resource":"pods"}', "the field 'usr' is not known in a policy without apiVersion"),
    ],
)
def test_error_names_the_line(tmp_path: Path, line: bytes, error: str) -> None:
    file = tmp_path / "policies.jsonl"
    file.write_bytes(b'#\n{"user":"a"}\n' + line)
    with pytest.raises(PolicyFileError) as raised:
        read_policies(file)
    assert str(raised.value).startswith(f"{file}, line 3: {error}")
