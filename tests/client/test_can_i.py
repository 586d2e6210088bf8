"""`rewound can-i` against a server that records the reviews it gets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.command import Run
from tests.client.fake_server import FakeServer

REVIEWS = "POST /apis/authorization.cluster.io/v1/selfsubjectaccessreviews"
REASON = 'RBAC: allowed by RoleBinding "devs/team" of ClusterRole "edit" to Group "devs"'


def answer(server: FakeServer, **status: Any) -> None:
    server.answers[REVIEWS] = (201, {"status": status})


def reviewed(server: FakeServer) -> dict[str, Any]:
    sent = server.requests[-1]
    assert f"{sent.method} {sent.path}" == REVIEWS
    document: dict[str, Any] = sent.document
    assert (document["apiVersion"], document["kind"]) == (
        "authorization.cluster.io/v1",
        "SelfSubjectAccessReview",
    )
    return document["spec"]


def test_yes_has_the_binding_and_exit_code_0(rewound: Run, server: FakeServer) -> None:
    answer(server, allowed=True, reason=REASON)
    ended = rewound("can-i", "create", "pods")
    assert (ended.code, ended.out, ended.err) == (0, f"yes - {REASON}\n", "")
    assert reviewed(server) == {
        "resourceAttributes": {"verb": "create", "group": "", "resource": "pods", "namespace": "team"}
    }


def test_no_has_the_reason_and_exit_code_1(rewound: Run, server: FakeServer) -> None:
    answer(server, allowed=False, reason="why", evaluationError="role missing")
    ended = rewound("can-i", "create", "pods")
    assert (ended.code, ended.out) == (1, "no - why - role missing\n")


def test_reason_cannot_control_the_terminal(rewound: Run, server: FakeServer) -> None:
    answer(server, allowed=True, reason="role \x1b[2J\nno")
    assert rewound("can-i", "create", "pods").out == "yes - role \\x1b[2J\\nno\n"
    server.answers[REVIEWS] = (403, {"message": "bad \x1b[2J"})
    assert rewound("can-i", "create", "pods").err == "rewound: bad \\x1b[2J\n"


def test_quiet_answer_is_the_exit_code(rewound: Run, server: FakeServer) -> None:
    answer(server, allowed=False)
    ended = rewound("can-i", "-q", "create", "pods")
    assert (ended.code, ended.out, ended.err) == (1, "", "")


@pytest.mark.parametrize(
    ("arguments", "attributes"),
    [
        (
            ("get", "po/log", "web", "-n", "other"),
            {"group": "", "resource": "pods", "subresource": "log", "name": "web", "namespace": "other"},
        ),
        (("get", "deploy"), {"group": "apps", "resource": "deployments", "namespace": "team"}),
        (("get", "Deployment.apps"), {"group": "apps", "resource": "deployments", "namespace": "team"}),
        (("get", "deployments.v1.apps"), {"group": "apps", "resource": "deployments", "namespace": "team"}),
        (("get", "nodes", "n1"), {"group": "", "resource": "nodes", "name": "n1"}),
        (("get", "pods", "-A"), {"group": "", "resource": "pods"}),
        (("get", "*"), {"group": "*", "resource": "*", "namespace": "team"}),
    ],
)
def test_resources_are_found_by_discovery(
    rewound: Run, server: FakeServer, arguments: tuple[str, ...], attributes: dict[str, str]
) -> None:
    answer(server, allowed=True)
    ended = rewound("can-i", *arguments)
    assert (ended.code, ended.out, ended.err) == (0, "yes\n", "")
    assert reviewed(server) == {"resourceAttributes": {"verb": "get", **attributes}}


def test_path_is_asked_for_as_it_is(rewound: Run, server: FakeServer) -> None:
    answer(server, allowed=True)
    assert rewound("can-i", "get", "/healthz/*").code == 0
    assert reviewed(server) == {"nonResourceAttributes": {"verb": "get", "path": "/healthz/*"}}


@pytest.mark.parametrize(("argument", "flag"), [("-A", "--all-namespaces"), ("-q", "--quiet")])
def test_arguments_without_effect_on_a_list_are_refused(
    rewound: Run, server: FakeServer, argument: str, flag: str
) -> None:
    ended = rewound("can-i", "--list", argument)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"rewound: {flag}: has no effect with --list; leave one of them out\n"
    assert server.requests == []


@pytest.mark.parametrize(
    ("arguments", "flag"), [(("-n", "x"), "--namespace"), (("-A",), "--all-namespaces"), (("web",), "NAME")]
)
def test_arguments_without_effect_on_a_path_are_refused(
    rewound: Run, server: FakeServer, arguments: tuple[str, ...], flag: str
) -> None:
    ended = rewound("can-i", "get", "/healthz", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"rewound: {flag}: has no effect with a path such as /healthz; leave it out\n"
    assert server.requests == []


def test_unknown_resource_is_asked_for_with_a_warning(rewound: Run, server: FakeServer) -> None:
    answer(server, allowed=True)
    ended = rewound("can-i", "get", "things.example.com")
    assert ended.out == "yes\n"
    assert (
        ended.err == "rewound: the server has no resource 'things.example.com'; asking for it all the same\n"
    )
    attributes = reviewed(server)["resourceAttributes"]
    assert (attributes["group"], attributes["resource"]) == ("example.com", "things")


def test_question_about_another_user_impersonates(rewound: Run, server: FakeServer) -> None:
    answer(server, allowed=True)
    rewound("can-i", "get", "pods", "--as", "alice", "--as-group", "a", "--as-group", "b")
    headers = server.requests[-1].headers
    assert (headers["impersonate-user"], headers.get_all("impersonate-group")) == ("alice", ["a", "b"])


def test_list_prints_all_rules(rewound: Run, server: FakeServer) -> None:
    server.answers["POST /apis/authorization.cluster.io/v1/selfsubjectrulesreviews"] = (
        201,
        {
            "status": {
                "resourceRules": [
                    {"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods"]},
                    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["a", "b"]},
                ],
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez"]}],
                "incomplete": True,
            }
        },
    )
    ended = rewound("can-i", "--list", "-n", "other")
    assert ended.code == 0
    assert ended.out.startswith("RESOURCES ")
    assert [" ".join(line.split()) for line in ended.out.splitlines()[1:]] == [
        "pods [] [] [get list]",
        "pods.apps [] [] [get list]",
        "*.* [] [a b] [*]",
        "[/healthz] [] [get]",
        "[/livez] [] [get]",
    ]
    assert "the list is incomplete" in ended.err
    assert server.requests[-1].document["spec"] == {"namespace": "other"}


@pytest.mark.parametrize("arguments", [(), ("get",), ("--list", "get", "pods"), ("get", "pods", "a", "b")])
def test_wrong_arguments_are_reported_in_one_line(rewound: Run, arguments: tuple[str, ...]) -> None:
    ended = rewound("can-i", *arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "see rewound can-i --help" in ended.err


@pytest.mark.parametrize("flag", ["--token", "--as", "--as-group"])
def test_empty_identity_is_refused(rewound: Run, server: FakeServer, flag: str) -> None:
    """From an unset shell variable: the result would be about the user of the file."""
    ended = rewound("can-i", "get", "pods", f"{flag}=")
    assert (ended.code, ended.out) == (2, "")
    assert f"rewound: {flag}: is empty; give a value, or leave the flag out" in ended.err
    assert server.requests == []


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        (("frobnicate", "pods"), "Warning: verb 'frobnicate' is not a known verb\n"),
        (("list", "/metrics"), "Warning: verb 'list' is not a known verb\n"),
        (("get", "nodes", "-n", "team"), "Warning: resource 'nodes' is not namespace scoped\n"),
        (("impersonate", "users", "bob"), ""),
        (("get", "nodes"), ""),
    ],
)
def test_question_that_makes_little_sense_is_asked_with_a_warning(
    rewound: Run, server: FakeServer, arguments: tuple[str, ...], warning: str
) -> None:
    answer(server, allowed=True)
    ended = rewound("can-i", *arguments)
    assert (ended.code, ended.out, ended.err) == (0, "yes\n", warning)


@pytest.mark.parametrize("resource", ["pods/", "pods//log"])
def test_resource_with_an_empty_part_is_refused(rewound: Run, server: FakeServer, resource: str) -> None:
    ended = rewound("can-i", "get", resource)
    assert ended.code == 2 and f"{resource!r} is not a resource; write it like pods or pods/log" in ended.err


def test_error_is_neither_yes_nor_no(rewound: Run, server: FakeServer) -> None:
    server.answers[REVIEWS] = (401, {"message": "Unauthorized"})
    ended = rewound("can-i", "get", "pods")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("rewound: Unauthorized: the server does not accept these credentials")


def test_without_a_kubeconfig_the_error_says_where_it_looked(rewound: Run) -> None:
    ended = rewound("can-i", "get", "pods")
    assert ended.code == 2
    assert "rewound-data/admin.kubeconfig and ~/.kube/config do not exist" in ended.err


def test_group_without_a_user_is_refused(rewound: Run, server: FakeServer) -> None:
    ended = rewound("can-i", "get", "pods", "--as-group", "a")
    assert ended.code == 2 and "--as-group: groups cannot be impersonated without a user" in ended.err
    assert server.requests == []


@pytest.mark.parametrize("flag", ["--as-uid", "--as-user-extra", "--as-extra"])
def test_uid_and_extra_cannot_be_impersonated(rewound: Run, flag: str) -> None:
    assert f"unrecognized arguments: {flag}" in rewound("can-i", "get", "pods", flag, "x").err
