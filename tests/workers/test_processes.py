"""A server of several processes, as a client sees it: `rewound serve --workers 2`."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import h11
import httpx
import pytest
import trio

from tests.gateway.api import ADMIN
from tests.gateway.plain_client import PlainClient
from tests.gateway.processes import Server, process, refused
from tests.identity_provider import CLIENT_ID, identity_provider
from tests.issuers import issuer

MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def children(server: Server) -> dict[str, int]:
    """The process ids of a server's processes, by role."""
    found: dict[str, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            words = (folder / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if parent == server.process.pid and "rewound.cli.child" in words:
            role = json.loads(words[words.index("rewound.cli.child") + 1])
            found["writer" if role["name"] == "writer" else f"worker {role['index']}"] = int(folder.name)
    return found


@asynccontextmanager
async def clients(server: Server) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Four clients with a connection each, in turn to the writer process and to the other."""
    opened: list[httpx.AsyncClient] = []
    of_worker: dict[str, list[httpx.AsyncClient]] = {"writer": [], "worker 1": []}
    try:
        while any(len(found) < 2 for found in of_worker.values()):
            before = connections(server)
            opened.append(client := server.connect())
            assert (await client.get("/readyz")).status_code == 200
            after = connections(server)
            [role] = [one for one in of_worker if after[one] > before[one]]
            of_worker[role].append(client)
        yield [one for pair in zip(*of_worker.values(), strict=False) for one in pair][:4]
    finally:
        for client in opened:
            await client.aclose()


def connections(server: Server) -> dict[str, int]:
    """How many established connections of the server's port each process has."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {row[9] for row in rows if row[1].endswith(f":{server.port:04X}") and row[3] == "01"}
    return {role: len(inodes & _inodes(pid)) for role, pid in children(server).items()}


def _inodes(pid: int) -> set[str]:
    """The inodes of a process's sockets; a descriptor may be closed meanwhile."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            found.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    return found


async def watch(server: Server, version: str, take: Callable[[dict[str, Any]], bool]) -> None:
    """Call `take` with each event of a watch from a version, which further options may follow, until its connection
    ends or `take` returns True.
    """
    head = h11.Request(
        method="GET",
        target=f"{MAPS}?watch=1&resourceVersion={version}",
        headers=[("host", "test"), ("authorization", f"Bearer {ADMIN}")],
    )
    protocol, lines = h11.Connection(h11.CLIENT), b""
    try:
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
            await stream.send_all(protocol.send(head) + protocol.send(h11.EndOfMessage()))
            while True:
                part = protocol.next_event()
                if part is h11.NEED_DATA:
                    protocol.receive_data(await stream.receive_some(65536))
                elif isinstance(part, h11.Response):
                    assert part.status_code == 200
                elif isinstance(part, h11.Data):
                    *whole, lines = (lines + part.data).split(b"\n")
                    if any(take(json.loads(line)) for line in whole):
                        return
                else:
                    return
    except (OSError, trio.BrokenResourceError, h11.RemoteProtocolError):
        return


async def until(condition: Any) -> None:
    with trio.fail_after(60):
        while not condition():
            await trio.sleep(0.02)


async def test_any_worker_knows_of_every_acknowledged_write(tmp_path: Path) -> None:
    """Objects, rights and kinds written over one connection are visible at once over another."""
    flags = "--workers", "2", "--feature-gates", "WatchList=true"
    async with process(tmp_path, *flags) as server, clients(server) as some:
        for number in range(40):
            writer, reader = some[number % 4], some[(number + 1 + number % 3) % 4]
            name = f"c{number}"
            made = await writer.post(MAPS, json=config_map(name))
            assert made.status_code == 201, made.text
            version = made.json()["metadata"]["resourceVersion"]
            got = await reader.get(f"{MAPS}/{name}")
            assert got.json()["metadata"]["resourceVersion"] == version
            listed = (await reader.get(MAPS)).json()
            assert name in [one["metadata"]["name"] for one in listed["items"]]
            assert int(listed["metadata"]["resourceVersion"]) >= int(version)
        await _rights_hold_at_once(some)
        await _kinds_are_served_at_once(some)
        await _watches_get_every_event(server, some)
        await _informers_begin_without_a_list(server, some)


async def _informers_begin_without_a_list(server: Server, some: list[httpx.AsyncClient]) -> None:
    """sendInitialEvents brings every object that was acknowledged before, then the bookmark that ends them."""
    query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    for number in range(4):
        made = await some[number].post(MAPS, json=config_map(f"informed-{number}"))
        found: list[dict[str, Any]] = []

        def take(event: dict[str, Any], found: list[dict[str, Any]] = found) -> bool:
            found.append(event)
            return bool(event["type"] == "BOOKMARK")

        await watch(server, query, take)
        *objects, end = found
        assert f"informed-{number}" in [one["object"]["metadata"]["name"] for one in objects]
        assert end["object"]["metadata"]["annotations"] == {"cluster.io/initial-events-end": "true"}
        version = int(made.json()["metadata"]["resourceVersion"])
        assert int(end["object"]["metadata"]["resourceVersion"]) >= version


async def _rights_hold_at_once(some: list[httpx.AsyncClient]) -> None:
    """A role binding applies to the next request, whichever worker gets it; so does its removal."""
    bindings = "/apis/rbac.authorization.cluster.io/v1/clusterrolebindings"
    for number in range(10):
        writer, reader = some[number % 4], some[(number + 1) % 4]
        name = f"reader-{number}"
        user = {"Impersonate-User": f"user-{number}"}
        assert (await reader.get(MAPS, headers=user)).status_code == 403
        binding = {
            "apiVersion": "rbac.authorization.cluster.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.cluster.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [
                {"apiGroup": "rbac.authorization.cluster.io", "kind": "User", "name": f"user-{number}"}
            ],
        }
        assert (await writer.post(bindings, json=binding)).status_code == 201
        assert (await reader.get(MAPS, headers=user)).status_code == 200
        assert (await writer.delete(f"{bindings}/{name}")).status_code == 200
        assert (await reader.get(MAPS, headers=user)).status_code == 403


async def _kinds_are_served_at_once(some: list[httpx.AsyncClient]) -> None:
    """A custom kind is served by every worker once a client has read that it is established."""
    definitions = "/apis/apiextensions.cluster.io/v1/customresourcedefinitions"
    for number in range(4):
        plural = f"crontabs{number}"
        definition = {
            "apiVersion": "apiextensions.cluster.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": plural, "singular": f"crontab{number}", "kind": f"CronTab{number}"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {
                                    "spec": {"type": "object", "properties": {"image": {"type": "string"}}}
                                },
                            }
                        },
                    }
                ],
            },
        }
        writer = some[number]
        assert (await writer.post(definitions, json=definition)).status_code == 201
        with trio.fail_after(30):
            established = False
            while not established:
                read = (await some[(number + 1) % 4].get(f"{definitions}/{plural}.example.com")).json()
                conditions = read["status"].get("conditions") or []
                established = any(
                    one["type"] == "Established" and one["status"] == "True" for one in conditions
                )
        path = f"/apis/example.com/v1/namespaces/default/{plural}"
        body = {
            "apiVersion": "example.com/v1",
            "kind": f"CronTab{number}",
            "metadata": {"name": "a"},
            "spec": {"image": "x", "unknown": 1},
        }
        for turn, client in enumerate(some):
            body["metadata"] = {"name": f"a{turn}"}
            made = await client.post(path, json=body)
            assert made.status_code == 201, made.text
            assert made.json()["spec"] == {"image": "x"}


async def _watches_get_every_event(server: Server, some: list[httpx.AsyncClient]) -> None:
    """Each worker delivers what any of them writes, in order, once."""
    start = (await some[0].get(MAPS)).json()["metadata"]["resourceVersion"]
    seen: dict[int, list[str]] = {index: [] for index in range(4)}
    names = [f"w{number}" for number in range(30)]

    def take(index: int, event: dict[str, Any]) -> bool:
        seen[index].append(event["object"]["metadata"]["name"])
        return len(seen[index]) == len(names)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for index in seen:
                nursery.start_soon(watch, server, start, partial(take, index))
            for number, name in enumerate(names):
                made = await some[number % 4].post(MAPS, json=config_map(name))
                assert made.status_code == 201
    assert all(got == names for got in seen.values())


class Writers:
    """Clients that continuously create objects, and the result of each create."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        self.stopped = False
        self.running = 0
        self._names = iter(f"o{number}" for number in range(1_000_000))

    async def run(self) -> None:
        self.running += 1
        client = PlainClient("127.0.0.1", self._server.port)
        headers = {"authorization": f"Bearer {ADMIN}", "content-type": "application/json"}
        while not self.stopped:
            await trio.sleep(0.02)  # more clients would only take CPU time from the processes that start
            name = next(self._names)
            body = json.dumps(config_map(name)).encode()
            try:
                status, _, text = await client.request("POST", MAPS, body, headers)
            except (httpx.TransportError, OSError) as error:
                self.failed.append(f"{name}: {error!r}")
                continue
            if status == 201:
                self.acknowledged.append(name)
            else:
                self.failed.append(f"{name}: {status} {text.decode()}")
        client.close()
        self.running -= 1

    async def more(self, count: int = 20) -> None:
        """Wait until this many more writes are acknowledged."""
        wanted = len(self.acknowledged) + count
        await until(lambda: len(self.acknowledged) >= wanted)


async def test_every_process_follows_the_files_of_access(tmp_path: Path) -> None:
    """Issuers of tokens and authorizers of a file count in all processes when the file has changed."""
    authenticators, authorizers = tmp_path / "authentication.json", tmp_path / "authorization.json"
    async with identity_provider(time.time()) as provider:
        jwt = {
            "issuer": {
                "url": provider.issuer,
                "audiences": [CLIENT_ID],
                "certificateAuthority": issuer("provider").file.read_text(),
            },
            "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
        }
        rbac, all_ = {"type": "RBAC", "name": "rbac"}, {"type": "AlwaysAllow", "name": "alwaysallow"}
        _write(authenticators, "AuthenticationConfiguration", jwt=[])
        _write(authorizers, "AuthorizationConfiguration", authorizers=[rbac])
        flags = f"--authentication-config={authenticators}", f"--authorization-config={authorizers}"
        token = {"authorization": f"Bearer {provider.token()}"}
        async with (
            process(tmp_path, "--workers", "2", "--anonymous-auth=false", *flags) as server,
            clients(server) as some,
        ):
            assert {(await one.get(MAPS, headers=token)).status_code for one in some} == {401}
            _write(authenticators, "AuthenticationConfiguration", jwt=[jwt])
            await _every_one_gets(some, token, 403)
            _write(authorizers, "AuthorizationConfiguration", authorizers=[rbac, all_])
            await _every_one_gets(some, token, 200)
            _write(authorizers, "AuthorizationConfiguration", authorizers=[])
            _write(authenticators, "AuthenticationConfiguration", jwt=[])
            await _every_one_gets(some, token, 401)
            metrics = (await some[0].get("/metrics")).text
            assert (
                _reloads(metrics, "authorization", "failure") >= 1
            )  # it has no authorizer: the last one counts on


def _write(path: Path, kind: str, **members: Any) -> None:
    document = {"apiVersion": "apiserver.config.cluster.io/v1", "kind": kind, **members}
    (other := path.with_suffix(".new")).write_text(json.dumps(document))
    other.replace(path)


async def _every_one_gets(some: list[httpx.AsyncClient], headers: dict[str, str], status: int) -> None:
    with trio.fail_after(60):
        for client in some:
            while (await client.get(MAPS, headers=headers)).status_code != status:
                await trio.sleep(0.1)


def _reloads(metrics: str, of: str, result: str) -> float:
    start = f"apiserver_{of}_config_controller_automatic_reloads_total{{"
    lines = [one for one in metrics.splitlines() if one.startswith(start) and f'status="{result}"' in one]
    return sum(float(one.rpartition(" ")[2]) for one in lines)


async def test_processes_are_replaced_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    async with process(tmp_path, "--workers", "2") as server:
        seen: list[str] = []
        listed = (await server.client.get(MAPS)).json()
        seen.extend(one["metadata"]["name"] for one in listed["items"])
        async with trio.open_nursery() as nursery:
            writers = Writers(server)
            for _ in range(4):
                nursery.start_soon(writers.run)
            nursery.start_soon(follow, server, listed["metadata"]["resourceVersion"], seen)
            await writers.more()
            before = children(server)
            assert set(before) == {"writer", "worker 1"}

            os.kill(before["writer"], signal.SIGKILL)
            await until(lambda: children(server).get("writer") not in (None, before["writer"]))
            await writers.more()
            # Clients of the writer process are disconnected; the others get a response.
            disconnected = ("ReadError", "RemoteProtocolError", "WriteError")
            unknown = ("it is unknown whether this change is stored", *disconnected)
            assert [one for one in writers.failed if not any(map(one.__contains__, unknown))] == []
            assert children(server)["worker 1"] == before["worker 1"]

            os.kill(before["worker 1"], signal.SIGKILL)
            await until(lambda: children(server).get("worker 1") not in (None, before["worker 1"]))
            await writers.more()

            failures, replaced = len(writers.failed), children(server)
            server.signal(signal.SIGHUP)
            await until(
                lambda: (
                    set(now := children(server)) == set(replaced)
                    and not set(now.values()) & set(replaced.values())
                )
            )
            await writers.more()
            # No connection is refused and no request fails: connections stay open for a moment, and end after a
            # response.
            assert writers.failed[failures:] == []

            acknowledged = set(writers.acknowledged)
            async with server.connect() as client:
                listed = (await client.get(MAPS)).json()
            stored = {one["metadata"]["name"] for one in listed["items"]}
            assert acknowledged <= stored
            await until(lambda: stored <= set(seen))
            assert len(seen) == len(set(seen))
            writers.stopped = True
            await until(lambda: not writers.running)
            nursery.cancel_scope.cancel()

        running = children(server)
        server.signal(signal.SIGTERM)
        assert await server.ended() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in running.values())


async def follow(server: Server, version: str, seen: list[str]) -> None:
    """Watch from a version, and resume from the last event's version over a new connection whenever one ends."""

    def take(event: dict[str, Any]) -> bool:
        nonlocal version
        assert event["type"] == "ADDED", event
        version = event["object"]["metadata"]["resourceVersion"]
        seen.append(event["object"]["metadata"]["name"])
        return False

    while True:
        await watch(server, version, take)
        await trio.sleep(0.01)


@pytest.mark.slow
async def test_children_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    async with process(tmp_path, "--workers", "2") as server:
        running = children(server)
        server.process.kill()
        await server.process.wait()
        await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in running.values()))


async def test_a_start_that_fails_says_why_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, text = await refused(tmp_path, "--workers", "2", "--insecure-port", port)
    assert code == 1
    assert text.startswith(f"rewound: --insecure-port: port {port} of 127.0.0.1 is in use; stop what listens")
    assert text.count("rewound: ") == 1
    (tmp_path / "data" / "journal").mkdir(parents=True)
    (tmp_path / "data" / "journal" / "data.mdb").write_bytes(b"no journal" * 1000)
    code, text = await refused(tmp_path, "--workers", "2")
    assert code == 1
    assert text.count("rewound: ") == 1


async def test_what_does_not_go_with_workers_is_refused(tmp_path: Path) -> None:
    faults = tmp_path / "faults.yaml"
    faults.write_text("[]")
    for flags, why in (
        (("--enable-test-controls",), "--workers: does not go with --enable-test-controls"),
        (("--faults", str(faults)), "--workers: does not go with --faults"),
        (("--workers", "65"), "--workers: 65 is not a number of processes; give a number from 1 to 64"),
    ):
        code, text = await refused(tmp_path, "--workers", "2", *flags)
        assert code == 2
        assert why in text
