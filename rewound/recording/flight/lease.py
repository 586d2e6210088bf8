"""One recorder of several: the one that holds a Lease of the recorded cluster, as client-go elects leaders.

A replica asks every two seconds. It takes a Lease that nobody holds, or that its holder has not renewed for
`leaseDurationSeconds`, by its own clock since it saw the last renewal: clocks of machines are never compared. A holder
that has not renewed for ten seconds holds it no longer, five seconds before another one may take it; recording stops
at once then. What it has recorded stays served until another replica holds the Lease: while the API server is lost,
the recording is wanted.

The folder has a lock too (`journal.files.data_file`), which a replica waits for: on one volume, two never write.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import trio

from rewound.client.errors import ClientError, StatusError, UsageError
from rewound.client.session import Session
from rewound.gateway.message import Request, Response
from rewound.journal.files.data_file import has_writer
from rewound.recording.flight.small_server import failure, respond

logger = logging.getLogger(__name__)

# Those of the controllers of Kubernetes.
DURATION: Final = 15  # seconds
RENEW: Final = 10.0
RETRY: Final = 2.0
_ATTEMPT: Final = 5.0  # seconds of one attempt

Document = dict[str, Any]
Send = Callable[[str, str, Document | None], Awaitable[Document]]


def parse_lease(text: str) -> tuple[str, str]:
    """NAMESPACE/NAME. Raises UsageError."""
    namespace, slash, name = text.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise UsageError(f"--lease: {text!r} names no Lease; write NAMESPACE/NAME")
    return namespace, name


class Sender:
    """Sends requests in threads. A session belongs to the thread of its request until that ends, abandoned or not."""

    def __init__(self, make_session: Callable[[], Session]) -> None:
        self._make_session = make_session
        self._idle: list[Session] = []
        self._closed = False

    async def __call__(self, method: str, path: str, body: Document | None) -> Document:
        return await trio.to_thread.run_sync(self._request, method, path, body, abandon_on_cancel=True)

    def _request(self, method: str, path: str, body: Document | None) -> Document:
        try:
            session = self._idle.pop()
        except IndexError:
            session = self._make_session()
        try:
            return session.request(method, path, body)
        finally:
            self._idle.append(session)
            if self._closed:
                self.close()

    def close(self) -> None:
        self._closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


class Lease:
    def __init__(self, send: Send, namespace: str, name: str, identity: str = "") -> None:
        self.identity = identity or f"{socket.gethostname()}_{uuid4()}"
        self.held = False
        self.holder = ""  # as it was last seen
        self.problem = ""  # why it cannot be asked
        self._send = send
        self._namespace, self._name = namespace, name
        self._folder = ""  # of the API: /apis/coordination.k8s.io/v1/namespaces/NAMESPACE/leases
        self._renewed = 0.0
        self._seen: tuple[object, ...] = ()  # of the last renewal of another one
        self._seen_at = 0.0
        self._changed = trio.Event()

    async def run(self) -> None:
        """Take it, and renew it, until cancelled."""
        while True:
            started = trio.current_time()
            left = self._renewed + RENEW - started if self.held else _ATTEMPT
            with trio.move_on_after(max(0.0, min(left, _ATTEMPT))) as scope:
                try:
                    await self._attempt(started)
                    self.problem = ""
                except ClientError as error:
                    self._report(str(error))
            if scope.cancelled_caught:
                self._report("the API server did not respond")
            if self.held and trio.current_time() >= self._renewed + RENEW:
                logger.warning(
                    "the Lease %s/%s could not be renewed: %s", self._namespace, self._name, self.problem
                )
                self._set(False)
            deadline = self._renewed + RENEW if self.held else float("inf")
            await trio.sleep_until(min(max(started + RETRY, trio.current_time()), deadline))

    async def wait(self, *, held: bool) -> None:
        while self.held is not held:
            await self._changed.wait()

    async def wait_taken(self) -> None:
        """Wait until another one holds it."""
        while self.held or self.holder in ("", self.identity):
            await self._changed.wait()

    async def release(self) -> None:
        """Let another one take it at once."""
        if not self.held:
            return
        self._set(False)
        with trio.move_on_after(_ATTEMPT, shield=True):
            try:
                lease = await self._get()
                if lease is not None and _spec(lease).get("holderIdentity") == self.identity:
                    _spec(lease).update(holderIdentity="", leaseDurationSeconds=1, renewTime=_now())
                    await self._send("PUT", f"{self._folder}/{self._name}", lease)
            except ClientError as error:
                logger.warning("the Lease is not released: %s", error)

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("the Lease %s/%s: %s", self._namespace, self._name, problem)
        self.problem = problem

    def _set(self, held: bool, holder: str = "") -> None:
        if held is self.held and holder == self.holder:
            return
        if held is not self.held:
            logger.info("the Lease %s/%s is %s", self._namespace, self._name, "held" if held else "not held")
        self.held, self.holder = held, holder
        self._changed.set()
        self._changed = trio.Event()

    async def _attempt(self, started: float) -> None:
        lease = await self._get()
        if lease is None:
            body = {
                "apiVersion": "/".join(self._folder.split("/")[2:4]),
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": self._record(0, _now()),
            }
            await self._unless_other("POST", self._folder, body, started)
            return
        spec = _spec(lease)
        holder, transitions = spec.get("holderIdentity") or "", spec.get("leaseTransitions") or 0
        seen = holder, spec.get("renewTime"), transitions, lease["metadata"].get("resourceVersion")
        if seen != self._seen:
            self._seen, self._seen_at = seen, started
        duration = spec.get("leaseDurationSeconds") or DURATION
        if holder not in ("", self.identity) and started < self._seen_at + duration:
            self._set(False, holder)
            return
        if holder == self.identity:
            spec.update(self._record(transitions, spec.get("acquireTime") or _now()))
        else:
            spec.update(self._record(transitions + 1, _now()))
        await self._unless_other("PUT", f"{self._folder}/{self._name}", lease, started)

    async def _unless_other(self, method: str, path: str, body: Document, started: float) -> None:
        try:
            await self._send(method, path, body)
        except StatusError as error:
            if error.code != 409:
                raise
            return  # another one was faster: the next attempt sees it
        self._renewed = started
        self._set(True, self.identity)

    def _record(self, transitions: int, acquired: str) -> Document:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": DURATION,
            "acquireTime": acquired,
            "renewTime": _now(),
            "leaseTransitions": transitions,
        }

    async def _get(self) -> Document | None:
        if not self._folder:
            groups = (await self._send("GET", "/apis", None)).get("groups") or []
            names = [one["name"] for one in groups if str(one.get("name", "")).startswith("coordination.")]
            if not names:
                raise ClientError("the API server has no Leases; leave --lease out")
            self._folder = f"/apis/{names[0]}/v1/namespaces/{self._namespace}/leases"
        try:
            return await self._send("GET", f"{self._folder}/{self._name}", None)
        except StatusError as error:
            if error.code == 404:
                return None
            raise


def _spec(lease: Document) -> Document:
    spec: Document = lease.setdefault("spec", {})
    return spec


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Standby:
    """What a replica that does not record responds: it lives, and is not ready."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    async def handle(self, request: Request) -> Response:
        if request.path.startswith("/livez"):
            return respond(200, b'"ok"')
        if self._lease.held:
            why = "the folder is still in use by another recorder"
        elif self._lease.holder:
            why = f"standby: {self._lease.holder} records"
        else:
            why = f"standby: {self._lease.problem or 'nobody holds the Lease yet'}"
        return failure(503, why, [(b"retry-after", b"5")])


async def run_leased(
    lease: Lease,
    folder: Path,
    stand_by: Callable[[trio.Event], Awaitable[None]],
    fly: Callable[[trio.Event], Awaitable[None]],
    stop: trio.Event,
) -> None:
    """Stand by until the Lease is held and the folder is free, then fly until another one holds it; until `stop`.

    `stand_by` and `fly` serve until their event is set.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lease.run)
        try:
            while not stop.is_set():
                await _while(stand_by, lambda: _wait_turn(lease, folder), stop)
                if not stop.is_set():
                    await _while(fly, lease.wait_taken, stop, at_once=True)
        finally:
            await lease.release()
        nursery.cancel_scope.cancel()


async def _wait_turn(lease: Lease, folder: Path) -> None:
    while True:
        await lease.wait(held=True)
        if not has_writer(folder / "journal"):
            return
        await trio.sleep(1)


async def _while(
    serve: Callable[[trio.Event], Awaitable[None]],
    until: Callable[[], Awaitable[None]],
    stop: trio.Event,
    *,
    at_once: bool = False,
) -> None:
    """Serve until something happens or `stop` is set; `at_once`: without waiting for running requests in the former."""
    ends = trio.Event()
    async with trio.open_nursery() as serving:

        async def wait() -> None:
            await until()
            if at_once:
                serving.cancel_scope.cancel()
            ends.set()

        async def wait_stop() -> None:
            await stop.wait()
            ends.set()

        async with trio.open_nursery() as waiting:
            waiting.start_soon(wait)
            waiting.start_soon(wait_stop)
            await serve(ends)
            waiting.cancel_scope.cancel()
