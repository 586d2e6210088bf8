"""Priority and fairness over HTTP: headers, 429, exempt users, and changes of the configuration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from rewound.actors.names import NAMES
from tests.gateway.api import ADMIN, ALICE, Api, ApiResponse, SlowDisk, config_map, served
from tests.gateway.connections.http2.raw_client import RawClient, rst_stream

LEVELS, SCHEMAS = "prioritylevelconfigurations", "flowschemas"
BOB = "bob-token"
MAPS = "/api/v1/namespaces/default/configmaps"
EVERYTHING = {
    "resourceRules": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    ]
}


@asynccontextmanager
async def limited(**changed: Any) -> AsyncIterator[Api]:
    """A server on which every user may do everything, and each level has a single seat."""
    given = {"max_requests_inflight": 1, "max_mutating_requests_inflight": 0}
    open_to_all = {"authorization_mode": "AlwaysAllow", "anonymous_auth": False}
    async with served(**{**given, **open_to_all, **changed}) as api:
        tokens = api.settings.token_auth_file
        assert tokens is not None
        with tokens.open("a") as file:
            file.write(f'{BOB},bob,3,"devs"\n')
        await api.restart()
        yield api


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> type[SlowDisk]:
    monkeypatch.setattr("rewound.server.open_store.Committer", SlowDisk)
    monkeypatch.setattr(SlowDisk, "gate", None)
    return SlowDisk


async def level_state(api: Api, level: str) -> dict[str, str]:
    """The row of a level, by the headings of its columns."""
    text = (await api.ask("GET", "/debug/api_priority_and_fairness/dump_priority_levels")).text
    headings, *rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    return next(dict(zip(headings, row, strict=True)) for row in rows if row[0] == level)


async def until(api: Api, level: str, column: str, number: int) -> None:
    with trio.fail_after(60):
        while (await level_state(api, level))[column] != str(number):
            await trio.lowlevel.checkpoint()


async def until_queued(api: Api, level: str, number: int) -> None:
    await until(api, level, "WaitingRequests", number)


async def until_executing(api: Api, level: str) -> None:
    await until(api, level, "ExecutingRequests", 1)


async def add_level(api: Api, name: str, response: dict[str, Any], *users: str) -> tuple[str, str]:
    """A level with a schema for these users; returns the uids of both."""
    limits = {"assuredConcurrencyShares": 1, "limitResponse": response}
    level = await api.create(
        LEVELS, {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limits}}
    )
    subjects = [{"kind": "User", "user": {"name": user}} for user in users]
    spec = {
        "priorityLevelConfiguration": {"name": name},
        "matchingPrecedence": 500,
        "rules": [{"subjects": subjects, **EVERYTHING}],
    }
    schema = await api.create(SCHEMAS, {"metadata": {"name": name}, "spec": spec})
    return schema["metadata"]["uid"], level["metadata"]["uid"]


def flow_headers(response: ApiResponse, dialect: str) -> tuple[str | None, str | None]:
    prefix = NAMES[dialect].extension_prefix
    return response.headers.get(f"{prefix}pf-flowschema-uid"), response.headers.get(
        f"{prefix}pf-prioritylevel-uid"
    )


@pytest.mark.parametrize("dialect", sorted(NAMES))
async def test_responses_name_flow_schema_and_priority_level(dialect: str) -> None:
    async with served(dialect=dialect, kubernetes_version="1.25") as api:
        for token, name in ((ADMIN, "exempt"), (ALICE, "global-default"), (None, "global-default")):
            expected = [(await api.get(plural, name))["metadata"]["uid"] for plural in (SCHEMAS, LEVELS)]
            for path in ("/api/v1/namespaces", "/version", "/apis", "/api/v1/namespaces/default/pods/x"):
                response = await api.ask("GET", path, token=token)
                assert flow_headers(response, dialect) == tuple(expected), (path, response.status)
        refused = await api.ask("GET", "/version", token="wrong")
        assert refused.status == 401 and flow_headers(refused, dialect) == (None, None)


@pytest.mark.parametrize("dialect", sorted(NAMES))
async def test_level_that_rejects_responds_with_429(dialect: str, slow_disk: type[SlowDisk]) -> None:
    settings = {"dialect": dialect, "kubernetes_version": "1.25"}
    async with limited(**settings) as api, trio.open_nursery() as nursery:
        uids = await add_level(api, "mine", {"type": "Reject"}, "alice")
        slow_disk.gate = trio.Event()
        nursery.start_soon(lambda: api.ask("POST", MAPS, config_map("a"), token=ALICE))
        await until_executing(api, "mine")
        refused = await api.ask("GET", MAPS, token=ALICE)
        assert (refused.status, refused.text) == (429, "Too many requests, please try again later.\n")
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["content-type"].startswith("text/plain")
        assert flow_headers(refused, dialect) == uids
        assert (await api.ask("GET", MAPS, token=BOB)).status == 200
        metrics = (await api.ask("GET", "/metrics")).text
        assert (
            'apiserver_flowcontrol_rejected_requests_total{flow_schema="mine",priority_level="mine",'
            'reason="concurrency-limit"} 1\n' in metrics
        )
        slow_disk.gate.set()


async def test_exempt_users_pass_while_others_wait(slow_disk: type[SlowDisk]) -> None:
    async with limited() as api, trio.open_nursery() as nursery:
        slow_disk.gate = trio.Event()
        statuses = []

        async def get() -> None:
            statuses.append((await api.ask("GET", f"{MAPS}/a", token=ALICE)).status)

        nursery.start_soon(lambda: api.ask("POST", MAPS, config_map("a"), token=ALICE))
        await until_executing(api, "global-default")
        nursery.start_soon(get)
        await until_queued(api, "global-default", 1)
        assert (await api.ask("GET", MAPS)).status == 200  # the admin is a master
        assert (await api.ask("GET", "/livez", token=ALICE)).status == 200  # and probes are exempt
        assert statuses == []
        slow_disk.gate.set()
        with trio.fail_after(60):
            while not statuses:
                await trio.lowlevel.checkpoint()
        assert statuses == [200]


async def test_flood_of_one_user_does_not_delay_another(slow_disk: type[SlowDisk]) -> None:
    """Alice's 30 requests came first, and the level has one seat; Bob's request runs at once."""
    async with limited() as api, trio.open_nursery() as nursery:
        slow_disk.gate = trio.Event()
        ended: list[str] = []

        async def create(token: str, name: str) -> None:
            (await api.ask("POST", MAPS, config_map(name), token=token)).expect(201)
            ended.append(token)

        for number in range(30):
            nursery.start_soon(create, ALICE, f"a{number}")
        await until_queued(api, "global-default", 29)
        nursery.start_soon(create, BOB, "b")
        await until(api, "global-default", "ExecutingRequests", 2)
        state = await level_state(api, "global-default")
        assert (state["WaitingRequests"], state["SeatsInUse"]) == ("29", "1")
        slow_disk.gate.set()
        with trio.fail_after(60):
            while len(ended) < 31:
                await trio.lowlevel.checkpoint()
        assert ended.index(BOB) <= 10
        assert (await level_state(api, "global-default"))["ExecutingRequests"] == "0"


async def test_http2_requests_wait_and_one_that_is_reset_leaves_its_queue(slow_disk: type[SlowDisk]) -> None:
    async with limited() as api, trio.open_nursery() as nursery:
        slow_disk.gate = trio.Event()
        nursery.start_soon(lambda: api.ask("POST", MAPS, config_map("a"), token=ALICE))
        await until_executing(api, "global-default")
        assert api.addresses.insecure is not None
        async with await trio.open_tcp_stream(*api.addresses.insecure) as stream:
            client = RawClient(stream)
            await client.open()
            fields = (("authorization", f"Bearer {ALICE}"),)
            first, second = [await client.request(f"{MAPS}/a", fields=fields) for _ in range(2)]
            await until_queued(api, "global-default", 2)
            await client.send(rst_stream(second))
            await until_queued(api, "global-default", 1)
            slow_disk.gate.set()
            response = await client.response(first)
            assert response.status == 200 and b"x-cluster-pf-flowschema-uid" in response.headers
        assert (await level_state(api, "global-default"))["CancelledRequests"] == "1"


async def test_large_bodies_take_more_seats(slow_disk: type[SlowDisk]) -> None:
    async with served(authorization_mode="AlwaysAllow", anonymous_auth=False) as api:
        async with trio.open_nursery() as nursery:
            slow_disk.gate = trio.Event()
            large = config_map("a", text="x" * (600 << 10))
            nursery.start_soon(lambda: api.ask("POST", MAPS, large, token=ALICE))
            await until_executing(api, "global-default")
            assert (await level_state(api, "global-default"))["SeatsInUse"] == "3"
            slow_disk.gate.set()
        state = await level_state(api, "global-default")
        assert (state["SeatsInUse"], state["DispatchedRequests"]) == ("0", "1")


async def test_changed_and_deleted_schemas_take_effect() -> None:
    async with served() as api:

        async def flow() -> tuple[str | None, str | None]:
            """The flow headers of repeated requests, which must be equal."""
            first, *others = [
                flow_headers(await api.ask("GET", f"{MAPS}/a", token=ALICE), "cluster") for _ in range(4)
            ]
            assert others == [first] * 3
            return first

        default = await flow()
        mine = await add_level(api, "mine", {"type": "Reject"}, "alice")
        assert await flow() == mine
        schema = await api.get(SCHEMAS, "mine")
        del schema["metadata"]["resourceVersion"]  # a controller may write the status meanwhile
        schema["spec"]["rules"][0]["subjects"] = [{"kind": "User", "user": {"name": "bob"}}]
        await api.replace(SCHEMAS, schema)
        assert await flow() == default
        schema["spec"]["rules"][0]["subjects"] = [{"kind": "User", "user": {"name": "alice"}}]
        await api.replace(SCHEMAS, schema)
        assert await flow() == mine
        await api.delete(LEVELS, "mine")
        assert await flow() == default


async def test_without_fairness_changing_requests_beyond_the_limit_get_429(slow_disk: type[SlowDisk]) -> None:
    async with (
        limited(enable_priority_and_fairness=False, max_mutating_requests_inflight=1) as api,
        trio.open_nursery() as nursery,
    ):
        slow_disk.gate = trio.Event()
        nursery.start_soon(lambda: api.ask("POST", MAPS, config_map("a"), token=ALICE))
        await until_executing(api, "mutating")
        refused = await api.ask("POST", MAPS, config_map("b"), token=BOB)
        assert (refused.status, refused.text) == (429, "Too many requests, please try again later.\n")
        assert refused.headers["retry-after"] == "1"
        assert (await api.ask("GET", MAPS, token=BOB)).status == 200
        nursery.start_soon(lambda: api.ask("POST", MAPS, config_map("c")))  # masters are not limited
        slow_disk.gate.set()
        with trio.fail_after(60):
            while (await api.ask("GET", f"{MAPS}/c")).status != 200:
                await trio.lowlevel.checkpoint()
        assert flow_headers(await api.ask("GET", MAPS), "cluster") == (None, None)


async def test_watches_take_no_seat_while_they_run() -> None:
    async with (
        limited() as api,
        api.client.stream("GET", f"{MAPS}?watch=1", headers={"authorization": f"Bearer {ALICE}"}) as watch,
    ):
        assert watch.status_code == 200
        assert "x-cluster-pf-flowschema-uid" in watch.headers
        assert (await api.ask("GET", MAPS, token=ALICE)).status == 200


@pytest.mark.parametrize(
    "flags",
    [{"max_requests_inflight": -1}, {"max_requests_inflight": 0, "max_mutating_requests_inflight": 0}],
)
def test_impossible_limits_are_refused(flags: dict[str, int]) -> None:
    from rewound.gateway.settings.checks import SettingsError
    from rewound.gateway.settings.settings import Settings

    with pytest.raises(SettingsError, match="--max-requests-inflight"):
        Settings(**flags)


async def test_level_that_is_deleted_while_a_body_arrives_is_not_used() -> None:
    """Otherwise nothing would ever start a request that waits in it."""
    body = b'{"metadata":{"name":"a"}}'
    head = (
        f"POST {MAPS} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {ALICE}\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    async with limited() as api:
        _, uid = await add_level(api, "mine", {"type": "Reject"}, "alice")
        default = (await api.get(LEVELS, "global-default"))["metadata"]["uid"]
        assert api.addresses.insecure is not None
        async with await trio.open_tcp_stream(*api.addresses.insecure) as stream:
            await stream.send_all(head.encode())
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 100 Continue")
            await api.delete(LEVELS, "mine")
            assert (await api.ask("GET", MAPS, token=ALICE)).status == 200  # reads the configuration
            await stream.send_all(body)
            response = b"".join([part async for part in stream])
        assert response.startswith(b"HTTP/1.1 201") and default.encode() in response
        assert uid.encode() not in response
