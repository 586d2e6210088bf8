"""Checks that a read sees every write that was acknowledged before it began, whatever connection each used.

With several workers, the connections of a client lie on different ones: what a worker serves may be behind what the
writer has acknowledged. Each client here writes over one connection and, once it has the response, reads over several
others at once. A check is one such read. What is read besides objects is what a server derives from them: rights (a
RoleBinding allows or no longer allows a user) and kinds (a CustomResourceDefinition is served, or no longer).

A client is a generator: it yields requests that are sent at the same time and gets their responses. One epoll drives
all of them, each a conversation of its own, so that thousands of checks a second leave the cores to the server.
"""

from __future__ import annotations

import json
import select
import shutil
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.loads.client import Client
from benchmarks.loads.connection import Http1Connection, client_context
from benchmarks.loads.request import Request
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.server_process import ServerProcess, fresh_folder, worker_flags

READERS = 3  # connections of a client besides the one that it writes over
MOVE_EVERY = 200  # conversations after which a client reconnects, to reach other workers
KEPT_MISSES = 20
STALL_TIMEOUT = 60.0
UPDATES = 5  # of an object between its creation and its deletion
USERS = 3  # whose rights are checked
MERGE = "application/merge-patch+json"


@dataclass(slots=True)
class Result:
    checks: Counter[str] = field(default_factory=Counter)  # by what was read
    missed: Counter[str] = field(default_factory=Counter)
    misses: list[str] = field(default_factory=list)  # the first ones, described
    seconds: float = 0.0

    @property
    def total(self) -> int:
        return self.checks.total()

    def record(self, what: str, seen: bool, described: str) -> None:
        self.checks[what] += 1
        if not seen:
            self.missed[what] += 1
            if len(self.misses) < KEPT_MISSES:
                self.misses.append(described)


class Failed(Exception):
    """The server refused a write or did not respond: nothing can be said about reads."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes


Sent = tuple[Http1Connection, Request]
Talk = Generator[list[Sent], list[Answer], None]


class Connections:
    """The connections of one client; `readers` may have another user."""

    def __init__(self, endpoint: Endpoint, reader: Endpoint) -> None:
        self._endpoints = (endpoint, *[reader] * READERS)
        self._open: list[Http1Connection] = []
        self.renew()

    def renew(self) -> None:
        self.close()
        self._open = [
            Http1Connection(0, each, client_context() if each.tls else None, keep_body=True)
            for each in self._endpoints
        ]

    @property
    def writer(self) -> Http1Connection:
        return self._open[0]

    @property
    def readers(self) -> list[Http1Connection]:
        return self._open[1:]

    def close(self) -> None:
        for connection in self._open:
            connection.close()


class Objects:
    """Creates, updates and deletes an object in a namespace of its own; gets and lists it."""

    def __init__(self, connections: Connections, namespace: str, result: Result) -> None:
        self._connections, self._result = connections, result
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"

    def talk(self) -> Talk:
        for number in count():
            name = f"o-{number}"
            body = {"metadata": {"name": name}, "data": {"number": "0"}}
            yield from self._write("POST", self._path, body)
            yield from self._expect(name, "0")
            for update in range(1, UPDATES + 1):
                yield from self._write(
                    "PATCH", f"{self._path}/{name}", {"data": {"number": str(update)}}, MERGE
                )
                yield from self._expect(name, str(update))
            yield from self._write("DELETE", f"{self._path}/{name}")
            yield from self._expect(name, None)

    def _write(self, method: str, path: str, body: Any = None, media: str = "application/json") -> Talk:
        yield from written(self._connections.writer, method, path, body, media)

    def _expect(self, name: str, value: str | None) -> Talk:
        """Every read shows the object with this value, or none."""
        get, listing = Request("GET", f"{self._path}/{name}"), Request("GET", self._path)
        first, *others = self._connections.readers
        answers = yield [(first, listing), *[(each, get) for each in others]]
        shown = json.loads(answers[0].body).get("items", []) if answers[0].status == 200 else None
        values = (
            None if shown is None else {each["metadata"]["name"]: each["data"]["number"] for each in shown}
        )
        seen = values is not None and values.get(name) == value
        self._result.record("list", seen, f"list after {name}={value}: {answers[0].status} {values}")
        for answer in answers[1:]:
            if value is None:
                seen = answer.status == 404
            else:
                seen = answer.status == 200 and json.loads(answer.body)["data"]["number"] == value
            self._result.record(
                "get", seen, f"get after {name}={value}: {answer.status} {answer.body[-200:]!r}"
            )


class Rights:
    """Binds a role to a user and unbinds it; the user reads over the other connections."""

    def __init__(self, connections: Connections, namespace: str, user: str, result: Result) -> None:
        self._connections, self._result, self._user = connections, result, user
        self._group = ""  # of RBAC, in the dialect of the server
        self._namespace = namespace

    def talk(self) -> Talk:
        [answer] = yield [(self._connections.writer, Request("GET", "/apis"))]
        names = [each["name"] for each in json.loads(answer.body)["groups"]]
        self._group = next(name for name in names if name.startswith("rbac."))
        path = f"/apis/{self._group}/v1/namespaces/{self._namespace}/rolebindings"
        subject = {"kind": "User", "apiGroup": self._group, "name": self._user}
        role = {"kind": "ClusterRole", "apiGroup": self._group, "name": "view"}
        binding = {"metadata": {"name": self._user}, "roleRef": role, "subjects": [subject]}
        while True:
            yield from written(self._connections.writer, "POST", path, binding)
            yield from self._expect(200)
            yield from written(self._connections.writer, "DELETE", f"{path}/{self._user}")
            yield from self._expect(403)

    def _expect(self, status: int) -> Talk:
        read = Request("GET", f"/api/v1/namespaces/{self._namespace}/configmaps?limit=1")
        for answer in (yield [(each, read) for each in self._connections.readers]):
            described = f"{self._user} got {answer.status} instead of {status}: {answer.body[-200:]!r}"
            self._result.record("rights", answer.status == status, described)


class Definitions:
    """Creates and deletes definitions of custom kinds; lists their objects."""

    def __init__(self, connections: Connections, prefix: str, result: Result) -> None:
        self._connections, self._prefix, self._result = connections, prefix, result

    def talk(self) -> Talk:
        [answer] = yield [(self._connections.writer, Request("GET", "/apis"))]
        names = [each["name"] for each in json.loads(answer.body)["groups"]]
        path = f"/apis/{next(name for name in names if name.startswith('apiextensions.'))}/v1"
        path += "/customresourcedefinitions"
        for number in count():
            plural = f"{self._prefix}{number}s"
            definition = custom_definition(plural)
            name = definition["metadata"]["name"]
            # A server may take a while to serve a kind and to end it. What a client has seen must then hold everywhere.
            yield from written(self._connections.writer, "POST", path, definition)
            yield from self._wait_for(f"{path}/{name}", _is_established)
            yield from self._expect(plural, 200)
            yield from written(self._connections.writer, "DELETE", f"{path}/{name}")
            yield from self._wait_for(objects_of(plural), _is_gone)
            yield from self._expect(plural, 404)

    def _wait_for(self, path: str, reached: Callable[[Answer], bool]) -> Talk:
        while True:
            [answer] = yield [(self._connections.writer, Request("GET", path))]
            if reached(answer):
                return

    def _expect(self, plural: str, status: int) -> Talk:
        read = Request("GET", objects_of(plural))
        for answer in (yield [(each, read) for each in self._connections.readers]):
            described = f"list of {plural}: {answer.status} instead of {status}"
            self._result.record("kinds", answer.status == status, described)


def objects_of(plural: str) -> str:
    return f"/apis/check.example.com/v1/{plural}"


def _is_established(definition: Answer) -> bool:
    conditions = json.loads(definition.body)["status"].get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _is_gone(objects: Answer) -> bool:
    return objects.status == 404


def custom_definition(plural: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title()}
    return {
        "metadata": {"name": f"{plural}.check.example.com"},
        "spec": {"group": "check.example.com", "scope": "Cluster", "names": names, "versions": [version]},
    }


def written(
    connection: Http1Connection, method: str, path: str, body: Any = None, media: str = "application/json"
) -> Talk:
    content = None if body is None else json.dumps(body).encode()
    [answer] = yield [(connection, Request(method, path, content, media))]
    if answer.status >= 300:
        raise Failed(f"{method} {path}: {answer.status} {answer.body[:300]!r}")


class Driver:
    """Sends what the clients want sent, and resumes each when it has all responses."""

    def __init__(self, result: Result) -> None:
        self._result = result
        self._poll = select.epoll()
        self._buffer = bytearray(1 << 18)
        self._view = memoryview(self._buffer)
        self._waiting: dict[int, tuple[int, Http1Connection]] = {}  # by file descriptor: whose it is
        self._clients: list[tuple[Connections, Talk]] = []
        self._sent: list[list[Sent]] = []
        self._missing: list[int] = []

    def run(self, clients: Sequence[tuple[Connections, Talk]], checks: int) -> None:
        """Run until there are this many checks, at least one of each client."""
        self._clients = list(clients)
        self._sent, self._missing = [[] for _ in clients], [0] * len(clients)
        steps, unchecked = [0] * len(clients), set(range(len(clients)))
        for number, (_, talk) in enumerate(clients):
            self._send(number, next(talk))
        while self._waiting:
            for number in self._complete():
                before = self._result.total
                if before >= checks and number not in unchecked:
                    continue
                steps[number] += 1
                answers = [_answer(connection) for connection, _ in self._sent[number]]
                wanted = self._clients[number][1].send(answers)
                if self._result.total > before:
                    unchecked.discard(number)
                if steps[number] % MOVE_EVERY == 0:
                    wanted = self._moved(number, wanted)
                self._send(number, wanted)

    def _send(self, number: int, wanted: list[Sent]) -> None:
        self._sent[number], self._missing[number] = wanted, len(wanted)
        for connection, request in wanted:
            connection.start(connection.exchanges[0], request)
            self._waiting[connection.fileno()] = number, connection
            self._poll.register(connection.fileno(), select.EPOLLIN)

    def _moved(self, number: int, wanted: list[Sent]) -> list[Sent]:
        """The same requests over new connections."""
        connections = self._clients[number][0]
        before = [connections.writer, *connections.readers]
        positions = [before.index(connection) for connection, _ in wanted]
        connections.renew()
        after = [connections.writer, *connections.readers]
        return [(after[position], request) for position, (_, request) in zip(positions, wanted, strict=True)]

    def _complete(self) -> list[int]:
        """Clients that now have all responses."""
        ready = self._poll.poll(STALL_TIMEOUT)
        if not ready:
            raise Failed(f"no response for {STALL_TIMEOUT:.0f} seconds")
        complete = []
        for fd, _ in ready:
            number, connection = self._waiting[fd]
            if connection.read(self._buffer, self._view):
                self._poll.unregister(fd)
                del self._waiting[fd]
                self._missing[number] -= 1
                if not self._missing[number]:
                    complete.append(number)
        return complete


def _answer(connection: Http1Connection) -> Answer:
    response = connection.exchanges[0].response
    return Answer(response.status, response.body)


def check(
    endpoint: Endpoint,
    checks: int,
    *,
    clients: int = 24,
    users: Sequence[Endpoint] = (),
    definitions: int = 1,
    tag: str = "check",
) -> Result:
    """Make this many checks with so many clients of objects, one of rights per user, and some of kinds.

    `users` are endpoints with the tokens of users who have no rights; their user names are their tokens.
    """
    result, driver_clients, opened = Result(), list[tuple[Connections, Talk]](), list[Connections]()
    with Client(endpoint) as client:
        for number in range(clients + len(users)):
            client.expect("POST", "/api/v1/namespaces", {"metadata": {"name": f"{tag}-{number}"}})
    try:
        for number in range(clients):
            opened.append(Connections(endpoint, endpoint))
            driver_clients.append((opened[-1], Objects(opened[-1], f"{tag}-{number}", result).talk()))
        for number, user in enumerate(users, clients):
            opened.append(Connections(endpoint, user))
            talk = Rights(opened[-1], f"{tag}-{number}", user.token, result).talk()
            driver_clients.append((opened[-1], talk))
        for number in range(definitions):
            opened.append(Connections(endpoint, endpoint))
            talk = Definitions(opened[-1], f"{tag.replace('-', '')}{number}x", result).talk()
            driver_clients.append((opened[-1], talk))
        begin = time.perf_counter()
        Driver(result).run(driver_clients, checks)
        result.seconds = time.perf_counter() - begin
    finally:
        for connections in opened:
            connections.close()
    return result


def user_endpoints(endpoint: Endpoint, names: Sequence[str]) -> list[Endpoint]:
    return [replace(endpoint, token=name) for name in names]


def user_lines(names: Sequence[str]) -> list[str]:
    """Lines of a token file: each user's token is its name."""
    return [f"{name},{name},{name}-uid" for name in names]


def measure(
    scratch: Path, checks: int, workers: int, report: Callable[[str], None], command: str = ""
) -> dict[str, Any]:
    """Check a new server with this many workers: half of the clients over TLS, half without."""
    names = [f"reader-{number}" for number in range(USERS)]
    folder = fresh_folder(scratch, "scale-consistency")
    try:
        server = ServerProcess(folder, command=command, flags=worker_flags(workers), users=user_lines(names))
        try:
            found = [
                check(endpoint, checks // 2, users=user_endpoints(endpoint, names), tag=tag)
                for endpoint, tag in ((server.endpoint, "tls"), (server.plain_endpoint, "plain"))
            ]
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    made, missed = Counter[str](), Counter[str]()
    for each in found:
        made.update(each.checks)
        missed.update(each.missed)
    report(f"{workers} workers: {made.total():,} checks, {missed.total():,} misses")
    return {
        "checks": dict(made),
        "missed": dict(missed),
        "misses": [miss for each in found for miss in each.misses],
        "seconds": round(sum(each.seconds for each in found), 1),
    }
