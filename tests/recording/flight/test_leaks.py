"""Requests of users of one namespace show not one byte about objects that they may not read: thousands, of every form.

The same requests of an administrator show markers of every namespace, so they reach what they are about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest
import trio
from trio.testing import MockClock

from rewound.recording.record.gaps import EXPIRED, STOPPED
from rewound.rewind.page.refused import FILE
from tests.actors.object_store import memory_folder
from tests.gateway.api import Api, served
from tests.gateway.watch.watching import connect, watching
from tests.gateway.watch.watching import request as head_of
from tests.gateway.watch.websocket_client import UPGRADE
from tests.recording.flight.flying import Flying, flying
from tests.recording.flight.sights import (
    MARKER,
    NAMESPACES,
    RBAC,
    SHOP,
    TOKENS,
    USERS,
    Request,
    Requests,
    World,
    change,
    harvest,
    leaks,
    path_of,
    populate,
    refused_lines,
)

LONG = [pytest.mark.slow, pytest.mark.timeout(2400)]
COUNT = pytest.mark.parametrize(
    ("count", "seed"), [(300, 46), *(pytest.param(5_000, seed, marks=LONG) for seed in (46, 47))]
)
SECOND = 1_000_000
ADMIN = "admin"
EVERYBODY = (*USERS, "ann", "bob")  # in turns; those who see much twice
REVIEWED = 11.0  # seconds after which the cluster is asked again
FOLLOWED = 75.0  # until rights of open watches are decided again


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


@dataclass
class Sent:
    """What came of many requests."""

    statuses: Counter[int] = field(default_factory=Counter)
    own: int = 0  # responses with something that the user may see
    shown: set[bytes] = field(default_factory=set)  # the markers in all responses
    leaked: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.statuses.total()


async def answer(one: Flying, request: Request, user: str) -> tuple[int, bytes]:
    """The status and everything that the server sent, headers too."""
    headers = dict(request.headers)
    if request.accept:
        headers["accept"] = request.accept
    if request.websocket:
        return await over_websocket(one, request, user)
    response = await one.api.ask(
        request.method, request.path, request.body, token=f"{user}-token", headers=headers
    )
    return response.status, response.body + repr(response.headers.raw).encode()


async def over_websocket(one: Flying, request: Request, user: str) -> tuple[int, bytes]:
    stream = await connect(one.api, small=False, secure=False)
    received = b""
    with trio.move_on_after(2):
        await stream.send_all(head_of(request.path, f"{user}-token", {**UPGRADE, **dict(request.headers)}))
        while data := await stream.receive_some(65536):
            received += data
    await trio.aclose_forcefully(stream)
    return int(received.split(b" ", 2)[1]), received


async def send(
    one: Flying,
    world: World,
    requests: Requests,
    count: int,
    users: tuple[str, ...],
    lost: tuple[str, ...] = (),
) -> Sent:
    """Send requests of these users in turn. Those who have `lost` their rights may see nothing."""
    sent = Sent()
    visible = {user: world.visible(user) if user not in lost else frozenset[bytes]() for user in users}
    for number in range(count):
        user = users[number % len(users)]
        request = requests.next(user)
        status, body = await answer(one, request, user)
        sent.statuses[status] += 1
        if found := leaks(body, request, visible[user]):
            sent.leaked.append(f"{user}: {request}: {status}: {sorted(found)}: {body[:2000]!r}")
        markers = set(MARKER.findall(body)) - set(MARKER.findall(request.given))
        sent.own += bool(markers & visible[user])
        sent.shown |= markers
    print(
        f"{count} requests of {len(users)} users: {len(sent.leaked)} leaks, {dict(sent.statuses)}", flush=True
    )
    return sent


@asynccontextmanager
async def recorded(folder: Path, seed: int = 46) -> AsyncIterator[tuple[Api, World, Flying, Requests]]:
    """A recording of a cluster with objects of several namespaces, half of whose versions it has seen itself."""
    tokens = folder.parent / "users.csv"
    tokens.write_text(TOKENS)
    rules = {"dialect": "kubernetes", "disable_admission_plugins": "ServiceAccount"}
    async with served(token_auth_file=tokens, **rules) as api:
        start = api.clock.now() // SECOND
        world = await populate(api)
        async with flying(api, folder) as one:
            await one.begun()
            api.clock.advance(60)
            for namespace in NAMESPACES:
                await change(world, namespace)
            await one.caught_up()
            now = api.clock.now() // SECOND
            lines = refused_lines(world, (now * SECOND - 5 * SECOND, now * SECOND))
            (folder / FILE).write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
            one.flight.gaps.add(EXPIRED, start * SECOND, now * SECOND, "pods", "too old", missing=True)
            one.flight.gaps.begin(STOPPED, start * SECOND)
            one.flight.gaps.end(STOPPED, now * SECOND)
            await harvest(world, one)
            yield api, world, one, Requests(world, seed, start, now)


@COUNT
async def test_no_byte_about_objects_of_others(
    folder: Path, autojump_clock: MockClock, count: int, seed: int
) -> None:
    autojump_clock.autojump_threshold = (
        0.01  # else threads of the server let minutes pass, and everything is asked again
    )
    async with recorded(folder, seed) as (api, world, one, requests):
        of_admin = await send(one, world, requests, count // 10, (ADMIN,))
        seen = {world.marked[marker.decode()].namespace for marker in of_admin.shown}
        assert seen >= set(NAMESPACES), "the requests do not reach what they are about"

        usual = await send(one, world, requests, count // 2, EVERYBODY)
        assert usual.own > usual.count // 40, usual.statuses

        # Rights that are lost meanwhile, also those of a watch that is open.
        path = path_of("configmaps", SHOP)
        async with watching(one.api, path, token="ann-token", timeoutSeconds="3600") as watch:
            await watch.take(1)
            await lose(api, "ann")
            await trio.sleep(REVIEWED)
            before = await send(one, world, requests, count // 5, EVERYBODY, lost=("ann",))
            await trio.sleep(FOLLOWED)
            assert watch.over
            assert not before.shown - set().union(*(world.visible(user) for user in USERS if user != "ann"))

        # The cluster cannot be asked.
        await api.finish()
        await trio.sleep(REVIEWED)
        unreachable = await send(
            one, world, requests, count - count // 2 - count // 5, EVERYBODY, lost=EVERYBODY
        )
        assert not unreachable.own and unreachable.statuses[401] and unreachable.statuses[500]
    all_of = (usual, before, unreachable)
    found = [text for one in all_of for text in one.leaked]
    assert not found, f"{len(found)} leaks, such as {found[0]}"
    assert sum(one.count for one in all_of) == count


async def lose(api: Api, user: str) -> None:
    path = f"/apis/{RBAC}/v1/namespaces/{SHOP}/rolebindings/{user}-0"
    (await api.ask("DELETE", path)).expect(200)


async def test_names_of_others_are_like_names_of_none(folder: Path, autojump_clock: MockClock) -> None:
    """Who may not read an object does not learn either whether it exists, or existed."""
    async with recorded(folder) as (_, world, one, _):
        uid = next(iter(world.uids))
        for type_, namespace, name in (
            ("configmaps", "bank", "settings"),
            ("pods", "bank", world.names["pods", "bank"][0]),
            ("configmaps", "bank", world.names["configmaps", "bank"][-1]),
            ("serviceaccounts", SHOP, world.names["serviceaccounts", SHOP][0]),
            ("nodes", "", "node-0"),
            ("widgets.example.com", "bank", uid),
        ):
            within = f"namespaces/{namespace}/" if namespace else ""
            past = f"/apis/rewound.cluster.io/v1/{within}{type_}"
            suspects = (
                f"/apis/rewound.cluster.io/v1/timeline/suspects?type={type_}&namespace={namespace}&name="
            )
            for before, after in (
                (path_of(type_, namespace) + "/", ""),
                (path_of(type_, namespace) + "/", f"?at={world.versions[-1]}"),
                (path_of(type_, namespace) + "?fieldSelector=metadata.name%3D", ""),
                (f"{past}/", "/history"),
                (f"{past}/", "/blame"),
                (suspects, ""),
            ):
                of = [
                    await answer(one, Request(f"{before}{who}{after}"), "ann")
                    for who in (name, "no-such-name")
                ]
                alike = [
                    (status, body.replace(who.encode(), b"?").partition(b"[(b")[0])
                    for (status, body), who in zip(of, (name, "no-such-name"), strict=True)
                ]
                assert alike[0] == alike[1], before
                assert alike[0][0] in (400, 403)
