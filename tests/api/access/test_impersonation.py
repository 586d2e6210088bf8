"""Impersonation over HTTP: user, groups, uid and extra are authorized separately; then they replace the caller."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.access.authorize import ALLOWED, NO_OPINION, Attributes, Decision, Rules
from rewound.actors.identity import User
from rewound.server.extensions import Extensions
from tests.cases import cases
from tests.gateway.api import ADMIN, ALICE, Api, ApiResponse, served
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authorization.cluster.io/v1/selfsubjectaccessreviews"


class Deputy:
    """Lets alice impersonate what the test allows, and bob read config maps; records every other request's user."""

    def __init__(self, *allowed: tuple[str, str]) -> None:
        self.allowed = set(allowed)
        self.asked: list[tuple[str, str, str, str]] = []
        self.users: list[User] = []

    def authorize(self, attributes: Attributes) -> Decision:
        if attributes.verb == "impersonate":
            resource = attributes.resource
            if attributes.subresource:
                resource += f"/{attributes.subresource}"
            self.asked.append((attributes.group, resource, attributes.namespace, attributes.name))
            return ALLOWED if (resource, attributes.name) in self.allowed else NO_OPINION
        if attributes.resource == "configmaps":
            self.users.append(attributes.user)
        return ALLOWED if attributes.user.name == "bob" else NO_OPINION

    async def rules(self, user: User, namespace: str) -> Rules:
        return Rules()


async def ask(
    api: Api, headers: list[tuple[str, str]], token: str | None = ALICE, **more: Any
) -> ApiResponse:
    sent = [*headers, ("authorization", f"Bearer {token}")] if token else headers
    response = await api.client.request(more.get("method", "GET"), more.get("path", PATH), headers=sent)
    return ApiResponse(response.status_code, response.headers, response.content)


def served_with(deputy: Deputy) -> Any:
    return served(extensions=Extensions(authorizers=[deputy]))


async def test_every_part_is_asked_for_and_becomes_the_identity() -> None:
    parts = ("users", "bob"), ("groups", "a, b"), ("groups", "devs"), ("uids", "u 1")
    extra = (
        ("userextras/acme.com/project", "one"),
        ("userextras/scopes", "view"),
        ("userextras/scopes", "edit"),
    )
    deputy = Deputy(*parts, *extra)
    async with served_with(deputy) as api:
        response = await ask(
            api,
            [
                ("Impersonate-User", "bob"),
                ("Impersonate-Group", "a, b"),
                ("Impersonate-Group", "devs"),
                ("Impersonate-Uid", "u 1"),
                ("Impersonate-Extra-Scopes", "view"),
                ("Impersonate-Extra-scopes", "edit"),
                ("Impersonate-Extra-Acme.com%2FProject", "one"),
            ],
        )
        assert response.status == 200
    group = "authentication.cluster.io"
    assert deputy.asked == [
        ("", "users", "", "bob"),
        ("", "groups", "", "a, b"),
        ("", "groups", "", "devs"),
        *((group, resource, "", name) for resource, name in extra),
        (group, "uids", "", "u 1"),
    ]
    assert deputy.users[-1] == User(
        "bob",
        "u 1",
        ("a, b", "devs", "system:authenticated"),
        (("acme.com/project", ("one",)), ("scopes", ("view", "edit"))),
    )


@pytest.mark.parametrize(
    ("header", "value", "resource", "group"),
    [
        ("Impersonate-User", "carol", "users", ""),
        ("Impersonate-Group", "system:masters", "groups", ""),
        ("Impersonate-Uid", "u1", "uids", "authentication.cluster.io"),
        ("Impersonate-Extra-Scopes", "all", "userextras/scopes", "authentication.cluster.io"),
    ],
)
async def test_a_part_that_the_caller_may_not_impersonate_is_refused(
    header: str, value: str, resource: str, group: str
) -> None:
    deputy = Deputy(("users", "bob"))
    async with served_with(deputy) as api:
        headers = [(header, value)] if resource == "users" else [("Impersonate-User", "bob"), (header, value)]
        refused = (await ask(api, headers)).expect(403)
        assert deputy.users == []
    assert (
        f'User "alice" cannot impersonate resource "{resource}" in API group "{group}"' in refused["message"]
    )
    assert refused["details"]["name"] == value


@cases(
    "header",
    [
        "Impersonate-Group",
        "Impersonate-Uid",
        "Impersonate-Extra-Scopes",
        "Impersonate-Grup",
    ],
)
@cases("path", [PATH, "/healthz", "/api"])
async def test_headers_without_a_user_are_refused(header: str, path: str) -> None:
    async with shared() as api:
        for value in ("", "x") if header != "Impersonate-Uid" else ("x",):
            refused = (await ask(api, [(header, value)], ADMIN, path=path)).expect(400)
            assert header.lower() in refused["message"]


@cases("headers", [["Impersonate-User"], ["Impersonate-Uid"], ["Impersonate-User", "Impersonate-Uid"]])
async def test_empty_user_and_uid_count_as_none(headers: list[str]) -> None:
    async with shared() as api:
        empty = [(header, "") for header in headers]
        assert (await ask(api, empty, ADMIN)).status == 200
        refused = (await ask(api, empty, ALICE)).expect(403)
        assert refused["message"].startswith('configmaps is forbidden: User "alice" cannot list')
        group = (await ask(api, [*empty, ("Impersonate-Group", "g")], ADMIN)).expect(400)
        assert group["message"].startswith("the header impersonate-group needs the header Impersonate-User")


async def test_impersonated_request_lacks_the_rights_of_its_caller() -> None:
    async with shared() as api:
        assert (await ask(api, [("Impersonate-User", "carol")], ADMIN)).status == 403
        both = [("Impersonate-User", "carol"), ("Impersonate-Group", "system:masters")]
        assert (await ask(api, both, ADMIN)).status == 200
        document = (await ask(api, [("Impersonate-User", "carol")], ADMIN)).document
        assert 'User "carol" cannot list' in document["message"]


async def test_the_caller_is_authenticated_first() -> None:
    async with shared() as api:
        assert (await ask(api, [("Impersonate-User", "admin")], "wrong")).status == 401
        assert (await ask(api, [("Impersonate-Group", "x")], "wrong")).status == 401
        refused = (await ask(api, [("Impersonate-User", "admin")], None)).expect(403)
        assert 'User "system:anonymous" cannot impersonate resource "users"' in refused["message"]


@pytest.mark.parametrize(
    ("user", "groups", "expected"),
    [
        ("dave", [], ("system:authenticated",)),
        ("dave", ["system:authenticated"], ("system:authenticated",)),
        ("dave", ["system:unauthenticated"], ("system:unauthenticated",)),
        ("system:anonymous", [], ("system:unauthenticated",)),
        (
            "system:serviceaccount:default:robot",
            [],
            ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"),
        ),
        ("system:serviceaccount:default:robot", ["g"], ("g", "system:authenticated")),
        ("system:serviceaccount:default", [], ("system:authenticated",)),
        ("system:serviceaccount:De_fault:robot", [], ("system:authenticated",)),
    ],
)
async def test_groups_of_the_identity(user: str, groups: list[str], expected: tuple[str, ...]) -> None:
    deputy = Deputy()
    async with served_with(deputy) as api:
        await ask(api, [("Impersonate-User", user), *(("Impersonate-Group", one) for one in groups)], ADMIN)
        deputy.allowed |= {
            ("users", user),
            ("serviceaccounts", "robot"),
            *(("groups", one) for one in groups),
        }
        await ask(api, [("Impersonate-User", user), *(("Impersonate-Group", one) for one in groups)])
    assert [one.groups for one in deputy.users] == [expected, expected]


async def test_a_service_account_needs_a_cluster_wide_right() -> None:
    deputy = Deputy(("serviceaccounts", "robot"))
    async with served_with(deputy) as api:
        account = "system:serviceaccount:default:robot"
        assert (await ask(api, [("Impersonate-User", account)])).status == 403
    assert deputy.asked == [("", "serviceaccounts", "", "robot")]  # in no namespace
    assert deputy.users[-1].name == account


async def test_a_bad_escape_stays_in_the_key() -> None:
    deputy = Deputy()
    async with served_with(deputy) as api:
        headers = [("Impersonate-User", "bob"), ("Impersonate-Extra-a%2fb%zz", "v")]
        deputy.allowed |= {("users", "bob"), ("userextras/a%2fb%zz", "v")}
        assert (await ask(api, headers)).status == 200
    assert deputy.users[-1].extra == (("a%2fb%zz", ("v",)),)


async def test_a_name_that_is_not_utf8_is_refused() -> None:
    async with shared() as api:
        sent = {b"impersonate-user": b"b\xffb", b"authorization": f"Bearer {ADMIN}".encode()}
        response = await api.client.request("GET", PATH, headers=sent)
        assert response.status_code == 400
        assert "impersonate-user is not UTF-8" in response.text


async def test_a_self_review_is_about_the_impersonated_user() -> None:
    async with served() as api:
        spec = {"resourceAttributes": {"verb": "list", "resource": "configmaps", "namespace": "default"}}
        for user, allowed in (("carol", False), ("admin", True)):
            headers = {"Impersonate-User": user}
            if allowed:
                headers["Impersonate-Group"] = "system:masters"
            review = await api.ask("POST", REVIEWS, {"spec": spec}, headers=headers)
            assert review.expect(201)["status"]["allowed"] is allowed


async def test_watches_continue_as_the_impersonated_user() -> None:
    deputy = Deputy(("users", "bob"))
    async with served_with(deputy) as api:
        headers = {"Impersonate-User": "bob", "authorization": f"Bearer {ALICE}"}
        async with api.client.stream("GET", f"{PATH}?watch=1", headers=headers) as response:
            assert response.status_code == 200
        refused = await ask(api, [("Impersonate-User", "carol")], ADMIN, path="/api/v1/namespaces?watch=1")
        assert 'User "carol" cannot watch' in refused.expect(403)["message"]
    assert deputy.users[-1].name == "bob"
