"""Elects the node that runs the controllers: the one whose lease holds the key `leader`.

Writes of controllers compare the create_revision of that key (`Condition.leading`): a node that has lost its lease
cannot write, however late it notices. It stops its controllers if it could not renew the lease in time, before another
node can start, or if the key has changed. The other nodes try to get the key at short intervals. One of them takes over
within TTL plus an interval after the leader has died, and at once after a graceful stop.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from rewound.actors.etcd.api import (
    Compare,
    DeleteRange,
    Etcd,
    EtcdError,
    Get,
    KeyValue,
    LeaseGone,
    OutcomeUnknown,
    Put,
    RangeResult,
)
from rewound.actors.store.etcd.records import Keys

logger = logging.getLogger(__name__)

TTL: Final = 3  # seconds of the lease
RENEW_SECONDS: Final = 0.75
ASK_SECONDS: Final = 0.5
# The leader stops this long after it sent the last confirmed renewal: before etcd lets the lease expire.
GIVE_UP_SECONDS: Final = 2.5

Task = tuple[str, Callable[[], Awaitable[None]]]
Keep = Callable[[str, Callable[[], Awaitable[None]]], Awaitable[None]]


class LeaderKeyChanged(EtcdError):
    """The key is no longer as this node put it: writes of its controllers would fail, or no node could take over."""

    def __init__(self, key: bytes) -> None:
        super().__init__(f"another program has changed the key {key.decode()} of etcd")


def _is_of_node(held: KeyValue) -> bool:
    """Whether a node has put the key: it has the lease that its value names."""
    _, space, lease = held.value.rpartition(b" ")
    return bool(space) and held.lease != 0 and lease == b"%x" % held.lease


class Election:
    def __init__(self, etcd: Etcd, keys: Keys, node: str, keep: Keep) -> None:
        """`keep` runs a task and restarts it when it crashes."""
        self._etcd, self._key, self._node, self._keep = etcd, keys.leader, node.encode(), keep
        self._tasks: Sequence[Task] = ()
        self._term = 0
        self._renewed = 0.0
        self._problem = ""  # the last one that was logged
        self.terms = 0  # how often this node has become the leader

    def lead_with(self, tasks: Sequence[Task]) -> None:
        """Run these tasks while this node leads."""
        self._tasks = tasks

    def term(self) -> int:
        """The create_revision of the key while this node leads, otherwise 0."""
        return self._term

    async def run(self) -> None:
        """Try to get the key, lead, and try again, forever."""
        while True:
            try:
                await self._ask_and_lead()
            except LeaseGone as gone:
                logger.warning("this node no longer runs the controllers: %s", gone)
            except EtcdError as error:
                self._log_once(f"the election of the node that runs the controllers failed: {error}")
            await trio.sleep(ASK_SECONDS)

    def _log_once(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            logger.warning(problem)

    async def _ask_and_lead(self) -> None:
        sent = trio.current_time()
        lease = await self._etcd.grant(TTL)
        self._renewed, self._problem = sent, ""
        try:
            while not (term := await self._ask(lease)):
                await trio.sleep(ASK_SECONDS)
                await self._renew(lease)
            await self._lead(lease, term)
        finally:
            with trio.move_on_after(1, shield=True):
                try:
                    await self._etcd.revoke(lease)
                except EtcdError:
                    logger.debug("the lease of this node expires by itself", exc_info=True)

    async def _ask(self, lease: int) -> int:
        """Try to get the key. Returns the term of this node if it has it now, otherwise 0."""
        own = b"%b %x" % (self._node, lease)
        try:
            result = await self._etcd.txn(
                [Compare(self._key, "create_revision", 0)], [Put(self._key, own, lease)], [Get(self._key)]
            )
        except OutcomeUnknown:
            return 0  # the next attempt finds its own value
        if result.succeeded:
            return result.revision
        [found] = result.responses
        assert isinstance(found, RangeResult)
        if not found.kvs:
            return 0
        [held] = found.kvs
        if not _is_of_node(held):
            await self._remove(held)
            return 0
        return held.create_revision if held.value == own else 0

    async def _remove(self, held: KeyValue) -> None:
        """Delete a value that no node put: no lease would remove it."""
        logger.warning(
            "another program has changed the key %s of etcd, which says who runs the controllers; deleting it",
            self._key.decode(),
        )
        try:
            await self._etcd.txn(
                [Compare(self._key, "mod_revision", held.mod_revision)], [DeleteRange(self._key)]
            )
        except OutcomeUnknown:
            logger.debug("the next attempt finds out", exc_info=True)

    async def _renew(self, lease: int) -> None:
        sent = trio.current_time()
        await self._etcd.keep_alive(lease)
        self._renewed = sent

    async def _lead(self, lease: int, term: int) -> None:
        logger.info("this node runs the controllers (term %d)", term)
        self.terms += 1
        failure: EtcdError | None = None
        try:
            async with trio.open_nursery() as nursery:
                self._term = term
                for name, run in self._tasks:
                    nursery.start_soon(self._keep, name, run)
                failure = await self._keep_lease(lease, term)
                nursery.cancel_scope.cancel()
        finally:
            self._term = 0
        if failure is not None:
            raise failure

    async def _keep_lease(self, lease: int, term: int) -> EtcdError:
        """Renew the lease until that fails for too long, or another program has changed the key; returns why."""
        failure: EtcdError = LeaseGone(lease)
        while True:
            await trio.sleep(RENEW_SECONDS)
            with trio.move_on_at(self._renewed + GIVE_UP_SECONDS) as scope:
                try:
                    await self._renew(lease)
                    held = (await self._etcd.range(self._key)).kvs
                    if not held or held[0].create_revision != term or not _is_of_node(held[0]):
                        return LeaderKeyChanged(self._key)
                except LeaseGone as gone:
                    return gone
                except EtcdError as error:
                    failure = error
            if scope.cancelled_caught or trio.current_time() >= self._renewed + GIVE_UP_SECONDS:
                return failure
