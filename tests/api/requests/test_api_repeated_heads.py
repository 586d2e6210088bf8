"""Requests on one connection with equal or similar header blocks: results are reused only for equal ones."""

from __future__ import annotations

from rewound.actors.access.authentication.authenticate import Authenticated
from rewound.actors.identity import AUTHENTICATED, MASTERS, User
from rewound.server.extensions import Extensions
from tests.actors.access.authorization.policies import binding, role, rule, user
from tests.gateway.api import ADMIN, ALICE, Api, config_map, served
from tests.gateway.connections.http2_client import Http2Client
from tests.gateway.proxy.backends import raw_client
from tests.gateway.shared_server import shared

COLLECTION = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;g=meta.cluster.io;v=v1,application/json"
PROTOBUF = "application/vnd.cluster.protobuf,application/json"


async def types_of(api: Api, accept: str, *paths: str) -> list[tuple[int, str]]:
    found = [await api.ask("GET", path, headers={"accept": accept}) for path in paths]
    return [(one.status, one.headers["content-type"].partition(";")[0]) for one in found]


async def test_representation_is_chosen_for_each_header_and_kind_of_response() -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a"))
        item = f"{COLLECTION}/a"
        for _ in range(2):
            yaml = await types_of(api, "application/yaml", item, COLLECTION, "/version", f"{item}?pretty=1")
            assert yaml == [(200, "application/yaml")] * 4
            json = await types_of(api, "application/json", item, COLLECTION, "/version")
            assert json == [(200, "application/json")] * 3
            assert await types_of(api, "text/html", item, COLLECTION) == [(406, "application/json")] * 2


async def test_table_and_protobuf_are_chosen_for_each_resource() -> None:
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    reviews = "/apis/authorization.cluster.io/v1/selfsubjectaccessreviews"
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a"))
        for _ in range(2):
            table = (await api.ask("GET", f"{COLLECTION}/a", headers={"accept": TABLE})).document
            assert table["kind"] == "Table"
            created = (await api.ask("POST", reviews, review, headers={"accept": TABLE})).document
            assert created["kind"] == "SelfSubjectAccessReview"
            encoded = await types_of(api, PROTOBUF, f"{COLLECTION}/a", "/version", COLLECTION)
            assert [name for _, name in encoded] == [
                "application/vnd.cluster.protobuf",
                "application/json",
                "application/vnd.cluster.protobuf",
            ]


async def test_indentation_follows_the_user_agent_and_the_query() -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a"))
        for _ in range(2):
            for agent, query, indented in (
                ("curl/8", "", True),
                ("test/1", "", False),
                ("curl/8", "?pretty=0", False),
                ("test/1", "?pretty=1", True),
            ):
                got = await api.ask("GET", f"{COLLECTION}/a{query}", headers={"user-agent": agent})
                assert (b"\n  " in got.body) is indented


async def test_impersonation_holds_for_every_request_with_its_headers() -> None:
    async with shared() as api:
        for _ in range(3):
            refused = await api.ask("GET", COLLECTION, headers={"impersonate-user": "jane"})
            assert refused.status == 403 and b'User \\"jane\\"' in refused.body
            assert (await api.ask("GET", COLLECTION)).status == 200


async def test_impersonation_holds_for_every_stream_that_repeats_its_block() -> None:
    caller = (b"authorization", f"Bearer {ADMIN}".encode())
    async with shared() as api, raw_client(api) as stream:
        client = Http2Client(stream)
        await client.open()
        for _ in range(4):  # starting with the second one, the block is identical
            as_jane = await client.request(
                COLLECTION.encode(), extra=(caller, (b"impersonate-user", b"jane"))
            )
            as_admin = await client.request(COLLECTION.encode(), extra=(caller,))
            assert (await client.status(as_jane), await client.status(as_admin)) == (b"403", b"200")


async def test_method_and_scope_are_checked_after_equal_paths_were_served() -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a"))
        for _ in range(2):
            asked = [
                ("GET", f"{COLLECTION}/a", 200),
                ("HEAD", f"{COLLECTION}/a", 405),
                ("GET", "/api/v1/namespaces/default", 200),
                ("GET", "/api/v1/namespaces/default/namespaces/default", 200),
                ("GET", "/api/v1/namespaces/default/namespaces/kube-system", 404),
                ("GET", "/api/v1/configmaps/a", 404),
                ("POST", f"{COLLECTION}/a", 405),
                ("GET", f"{COLLECTION}/a/b/c/d", 404),
            ]
            found = [(method, path, (await api.ask(method, path)).status) for method, path, _ in asked]
            assert found == asked


async def test_format_of_the_body_and_field_manager_follow_the_headers() -> None:
    async with shared("configmaps") as api:
        for number in range(2):
            for media, body, agent in (
                ("application/yaml", f"metadata: {{name: y{number}}}\ndata: {{k: v}}\n", "one/1"),
                ("application/json", f'{{"metadata":{{"name":"j{number}"}},"data":{{"k":"v"}}}}', "two/2"),
                ("application/json", f'{{"metadata":{{"name":"k{number}"}},"data":{{"k":"v"}}}}', "one/1"),
            ):
                sent = {"content-type": media, "user-agent": agent}
                created = await api.ask("POST", COLLECTION, body.encode(), headers=sent)
                assert created.status == 201, created.body
                [fields] = created.document["metadata"]["managedFields"]
                assert fields["manager"] == agent[:3]
            sent = {"content-type": "application/yaml"}
            refused = await api.ask("POST", COLLECTION, b"{]", headers=sent)
            assert refused.status == 400 and b"yaml" in refused.body
            refused = await api.ask("POST", COLLECTION, b"{}", headers={"content-type": "text/plain"})
            assert refused.status == 415


async def test_repeated_request_line_is_served_for_its_method_query_and_user() -> None:
    async with shared("configmaps") as api:
        await api.create("configmaps", config_map("a"))
        item, jane = f"{COLLECTION}/a", {"impersonate-user": "jane"}
        asked: list[tuple[str, str, int, dict[str, str]]] = [
            *[("GET", item, 200, {})] * 3,
            *[("GET", f"{item}?watch=1&timeoutSeconds=0&resourceVersion=x", 400, {}), ("GET", item, 200, {})],
            *[("GET", item, 403, jane)] * 3,
            *[("POST", item, 405, {}), ("GET", item, 200, {}), ("DELETE", item, 200, {})],
            *[("GET", item, 404, {})] * 2,
        ]
        for method, path, status, headers in asked:
            assert (await api.ask(method, path, headers=headers)).status == status, (method, path)


async def test_changed_rights_hold_for_the_next_request_that_repeats_an_earlier_one() -> None:
    item = f"{COLLECTION}/a"

    async def statuses(api: Api) -> list[int]:
        return [(await api.ask("GET", item, token=ALICE)).status for _ in range(4)]

    async with served() as api:
        await api.create("configmaps", config_map("a"))
        assert await statuses(api) == [403] * 4
        await api.create("clusterroles", role("reader", rule("get", "configmaps")))
        await api.create("clusterrolebindings", binding("reader", "reader", user("alice")))
        assert await statuses(api) == [200] * 4
        await api.replace("clusterroles", role("reader", rule("list", "configmaps")))
        assert await statuses(api) == [403] * 4
        await api.replace("clusterroles", role("reader", rule("get", "configmaps", names="a")))
        assert await statuses(api) == [200] * 4
        await api.delete("clusterrolebindings", "reader")
        assert await statuses(api) == [403] * 4


class ChangingUser:
    """A token whose authenticator may change its user, as a webhook does."""

    def __init__(self) -> None:
        self.user = User("nobody", groups=(AUTHENTICATED,))

    def authenticate(self, token: bytes, audiences: tuple[str, ...]) -> Authenticated | None:
        return Authenticated(self.user) if token == b"changing" else None


async def test_user_of_a_token_changes_between_requests_that_repeat_an_earlier_one() -> None:
    method = ChangingUser()

    async def seen(api: Api) -> list[int]:
        return [(await api.ask("GET", f"{COLLECTION}/a", token="changing")).status for _ in range(4)]

    async with served(extensions=Extensions(token_methods=(method,))) as api:
        await api.create("configmaps", config_map("a"))
        await api.create("clusterroles", role("reader", rule("get", "configmaps")))
        await api.create("clusterrolebindings", binding("reader", "reader", user("reader")))
        for name, groups, status in (("reader", (), 200), ("other", (), 403), ("other", (MASTERS,), 200)):
            method.user = User(name, groups=(*groups, AUTHENTICATED))
            assert await seen(api) == [status] * 4
        method.user = User("other", groups=(AUTHENTICATED,))
        assert await seen(api) == [403] * 4
