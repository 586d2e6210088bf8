"""The members of an etcd cluster: calls one, and the next one if that fails; keeps the token of the user.

All calls go to the same member as long as it responds, at first to the one that is given first. A call ends within
`seconds`, with a reply or an error. A call that can be repeated is tried at one member for a part of that time and then
at the others; one that changes something waits until its reply arrives, the time is over or the member is given up.

A paused process still has open connections, and a watch may be silent for hours. So `run` probes the status of members
that have calls or watches and are silent. One that does not reply is given up: its calls and watches end, and other
members are used. A proposal on its way to a leader that failed is lost, and etcd would wait for it for seconds: calls
from before the newest election end, too. A member that has lost its leader refuses calls and ends watches itself,
because every request but a serializable read says that it needs one (`hasleader`).
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

import trio

from rewound.actors.access.remote.deadlines import Deadlines, TooSlow
from rewound.actors.access.remote.slots import Slots
from rewound.actors.etcd.api import EtcdRefused, EtcdUnavailable, MemberStatus, OutcomeUnknown
from rewound.cluster.etcd.encoding import authenticate_request, authenticate_result, header_of, status_result
from rewound.cluster.etcd.member import MemberClient
from rewound.cluster.etcd.replies import Lost, NoAuthentication, NotDone, TokenInvalid
from rewound.gateway.outgoing.connections import Connections

CALL_SECONDS: Final = 8.0  # longer than an election, and than etcd's own limit (7 s by default)
# At one member, for a call that can be repeated: all three members of a cluster get their turn.
TRIES: Final = 3
PAUSE: Final = 0.1  # seconds, when all members have failed
STATUS_SECONDS: Final = 1.5  # a member that is well responds within milliseconds, also without a leader
PROBE_SECONDS: Final = 0.5  # between two looks for silent members
# etcd commits concurrent requests in one write: more at once are no faster. Servers in Go accept 250 streams.
MAX_CALLS: Final = 128

_T = TypeVar("_T")
Attempt = Callable[[MemberClient, float], Awaitable[_T]]  # (member, deadline)


@dataclass(frozen=True, slots=True)
class EtcdStatistics:
    member: str  # the URL of the one that is asked first
    calls: int  # so far
    under_way: int  # calls and watches
    failovers: int  # times that another member became the first


class Cluster:
    def __init__(
        self, endpoints: Sequence[str], tls: ssl.SSLContext | None, user: str, password: str, seconds: float
    ) -> None:
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
        self._nursery: trio.Nursery | None = None  # of `run`
        self._running = trio.Event()
        connections = Connections(max_idle=0)
        self.members = [MemberClient(url, tls, connections, self._spawn) for url in endpoints]
        self.seconds = seconds
        self._first = 0  # index of the member that is asked first
        self._user, self._password, self._token = user, password, ""
        self._authenticating = trio.Lock()
        self._slots = Slots(MAX_CALLS, Deadlines())
        self._term = 0  # newest raft term in a reply
        self._calls = self._failovers = 0

    def statistics(self) -> EtcdStatistics:
        under_way = sum(len(member.busy) for member in self.members)
        return EtcdStatistics(self.members[self._first].url, self._calls, under_way, self._failovers)

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as self._nursery:
                self._running.set()
                while True:
                    await trio.sleep(PROBE_SECONDS)
                    await self._probe_silent()
        finally:
            self._nursery = None

    async def _probe_silent(self) -> None:
        since = trio.current_time() - PROBE_SECONDS
        silent = [member for member in self.members if member.busy and member.heard <= since]
        async with trio.open_nursery() as nursery:
            for member in silent:
                nursery.start_soon(self._probe, member)

    async def _spawn(self, task: Callable[[], Awaitable[None]]) -> None:
        await self._running.wait()
        if self._nursery is None:
            raise EtcdUnavailable("the client of etcd has ended")
        self._nursery.start_soon(task)

    async def _probe(self, member: MemberClient) -> None:
        try:
            status = await self.status(member)
        except (NotDone, Lost):
            self.avoid(member)
            member.give_up()
        except EtcdRefused:
            pass  # it responds
        else:
            member.give_up_before(status.raft_term)

    async def status(self, member: MemberClient) -> MemberStatus:
        """The status of a member. Raises NotDone, Lost or EtcdRefused."""
        deadline = trio.current_time() + STATUS_SECONDS
        reply = await self._ask(member, deadline, "/etcdserverpb.Maintenance/Status", b"", leader=False)
        return status_result(member.url, reply)

    # Calls.

    async def call(self, path: str, body: bytes, *, leader: bool = True, repeatable: bool = True) -> bytes:
        """Send a call. `leader`: it needs one. `repeatable`: it may be sent again even if it may have been done."""
        deadline = trio.current_time() + self.seconds
        self._calls += 1
        try:
            if not self._slots.take_nowait():
                await self._slots.take(deadline)
        except TooSlow:
            raise EtcdUnavailable(
                f"{MAX_CALLS} other calls of etcd were under way for {self.seconds:g} s"
            ) from None

        async def attempt(member: MemberClient, limit: float) -> bytes:
            return await self._ask(member, limit, path, body, leader=leader)

        try:
            return await self.anywhere(attempt, deadline, repeatable=repeatable)
        finally:
            self._slots.release()

    async def anywhere(self, attempt: Attempt[_T], deadline: float, *, repeatable: bool = True) -> _T:
        """The reply of the first member that has one. Raises EtcdUnavailable, OutcomeUnknown, or etcd's own error."""
        again = False
        while True:
            first, members = self._first, self.members
            for member in members[first:] + members[:first]:
                now = trio.current_time()
                limit = min(deadline, now + self.seconds / TRIES) if repeatable else deadline
                try:
                    return await attempt(member, limit)
                except (NotDone, Lost) as error:
                    # A try that the end of the call cuts short says less than the one before it.
                    if not again or limit < deadline:
                        member.problem = str(error)
                    if isinstance(error, Lost) and not repeatable:
                        self.avoid(member)
                        raise OutcomeUnknown(
                            f"etcd may have applied the transaction, or may still do so: {member.url}: {error}"
                        ) from None
                self.avoid(member)
                if trio.current_time() >= deadline:
                    raise self._unavailable()
            if trio.current_time() + PAUSE >= deadline:
                raise self._unavailable()
            await trio.sleep(PAUSE)
            again = True

    async def _ask(
        self, member: MemberClient, deadline: float, path: str, body: bytes, *, leader: bool
    ) -> bytes:
        async def attempt(token: str) -> bytes:
            reply = await member.call(path, fields(token, leader=leader), body, deadline, self._term or None)
            self._term = max(self._term, header_of(reply).raft_term)
            return reply

        return await self.authorized(member, deadline, attempt)

    # The user.

    async def authorized(
        self, member: MemberClient, deadline: float, attempt: Callable[[str], Awaitable[_T]]
    ) -> _T:
        """Call `attempt` with a token ("" without a user), and again with a new one if that was refused."""
        if self._user and not self._token:
            await self._authenticate(member, deadline, "")
        token = self._token
        try:
            return await attempt(token)
        except TokenInvalid:
            if not self._user:
                raise EtcdRefused("etcd asks for a user: give one with its password") from None
            await self._authenticate(member, deadline, token)
            return await attempt(self._token)

    async def _authenticate(self, member: MemberClient, deadline: float, old: str) -> None:
        """Replace the old token, unless another call has already done so. Raises NotDone or EtcdRefused."""
        async with self._authenticating:
            if self._token != old:
                return
            request = authenticate_request(self._user, self._password)
            try:
                reply = await member.call(
                    "/etcdserverpb.Auth/Authenticate", fields("", leader=True), request, deadline
                )
                self._token = authenticate_result(reply)
            except Lost as error:
                raise NotDone(str(error)) from None
            except NoAuthentication:
                self._token = ""

    # Members.

    def avoid(self, member: MemberClient) -> None:
        """Prefer another member from now on, if this one was preferred."""
        if len(self.members) > 1 and self.members[self._first] is member:
            self._first = (self._first + 1) % len(self.members)
            self._failovers += 1

    def _unavailable(self) -> EtcdUnavailable:
        troubles = "; ".join(f"{member.url}: {member.problem or 'not asked'}" for member in self.members)
        return EtcdUnavailable(f"no member of etcd could do it within {self.seconds:g} s ({troubles})")


@lru_cache(maxsize=4)
def fields(token: str, *, leader: bool) -> tuple[tuple[str, str], ...]:
    """The metadata of a request."""
    return (*((("hasleader", "true"),) if leader else ()), *((("token", token),) if token else ()))
