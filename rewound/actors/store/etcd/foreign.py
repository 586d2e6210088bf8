"""Settles changes that other programs than the nodes have made below the prefix, so that the cluster continues.

`etcdctl` and backups write no `head`, so their changes of objects are no events: the follower of every node skips them
and reports their keys here. One node then settles each with an ordinary transaction, which all nodes follow. So all
have the same events, versions and quarantine, also a node that joins later.

    the object is gone             a delete without a user
    the value is a valid record    an update or a create without a user
    any other value                moves to `quarantine/`; if there was an object, also a delete without a user

The key `adopted` decides which node settles it: the transaction compares that nobody has put it since the state that
was compared with the journal. Nothing here guesses: the journal has all changes up to the `head` of that state, so an
object whose version differs from the key's is one that no node has written.

The quarantine consists of the keys below `quarantine/` in etcd. `etcdctl del` of such a key ends it; until then logs,
metrics and `rewound verify` report it.

Rejected: every node derives the event from the foreign revision itself. A revision can change thousands of objects, and
each event needs its own version; a deleted object has no content in etcd, so a node that joins later would have none.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from os import urandom
from typing import Final, Protocol

import trio

from rewound.actors.etcd.api import (
    Compare,
    DeleteRange,
    Etcd,
    EtcdError,
    EtcdFull,
    EtcdRefused,
    Get,
    KeyValue,
    Operation,
    OutcomeUnknown,
    Put,
    RangeResult,
    prefix_end,
)
from rewound.actors.etcd.api import Event as WatchEvent
from rewound.actors.store.document import without_version
from rewound.actors.store.etcd.epoch import newest_version, version_of
from rewound.actors.store.etcd.records import (
    Change,
    Cluster,
    Head,
    Keys,
    Quarantined,
    SealedKey,
    UnknownLayout,
    Unreadable,
    decode_heads,
    encode_heads,
)
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal
from rewound.journal.records import Row

logger = logging.getLogger(__name__)

Claims = Callable[[bytes], frozenset[str]]
OnChange = Callable[[Mapping[bytes, Quarantined]], Awaitable[None]]

DELETED: Final = "deleted in etcd, not through the API"
WRITTEN: Final = "written in etcd, not through the API"
UNREADABLE: Final = "overwritten in etcd, not through the API, with a value that cannot be read"
PAUSE_SECONDS: Final = 1.0  # before the next attempt
PAGE: Final = 50  # keys per read of the quarantine, whose values may be as large as etcd allows
# Bytes kept of a value that is too large for etcd to take in quarantine: the request is a little larger than its put.
SHORTENED: Final = 64 << 10


async def _ignore(_: Mapping[bytes, Quarantined]) -> None:
    """For a node that reports its quarantine to nobody."""


class NotKnownYet(Exception):
    """This node does not serve the kind of a record yet."""


class CheckRecord(Protocol):
    def __call__(self, type_name: str, namespace: str, name: str, body: bytes) -> tuple[bytes, bytes]:
        """Facts and body, as nodes write them, of an object from another program. Raises Unreadable or NotKnownYet."""


def refuse_records(type_name: str, namespace: str, name: str, body: bytes) -> tuple[bytes, bytes]:
    """For a node that knows no kinds: every record is invalid."""
    raise Unreadable("no node has written it")


class _Refused(Exception):
    """Why a value goes to the quarantine."""


class Foreign:
    def __init__(
        self,
        etcd: Etcd,
        keys: Keys,
        journal: Journal,
        feed: Feed,
        claims: Mapping[str, Claims],
        check: CheckRecord,
        now: Callable[[], int],
    ) -> None:
        """`now`: microseconds since 1970."""
        self._etcd, self._keys = etcd, keys
        self._journal, self._feed = journal, feed
        self._claims, self._now = claims, now
        self.check = check
        self._pending: dict[bytes, None] = {}
        self._wanted = trio.Event()
        self._logged = ""
        self._guarded: dict[bytes, tuple[Callable[[bytes], bool], bytes]] = {}
        # By the original key; without values, which may be large and many.
        self.quarantined: dict[bytes, Quarantined] = {}
        self._noted: set[bytes] | None = None  # changes that the watch brings while the quarantine is read
        self._is_reported = False  # whether `quarantined` has been reported
        self.on_change: OnChange = _ignore
        self.settled = 0

    def guard(self, key: bytes, own: bytes, is_right: Callable[[bytes], bool]) -> None:
        """Restore this value whenever another program deletes the key or puts a value that `is_right` rejects."""
        self._guarded[key] = is_right, own
        self._want(key)

    def suspect(self, keys: tuple[bytes, ...]) -> None:
        """Check objects that could not be read when the journal was built."""
        for key in keys:
            self._want(key)

    # The follower calls these.

    def see(self, event: WatchEvent) -> None:
        key = event.now.key
        if key.startswith(self._keys.quarantine):
            if self._noted is not None:
                self._noted.add(key)
            self._note(event.now, event.is_delete)
        elif key in self._guarded:
            self._want(key)

    def settle(self, objects: Mapping[bytes, KeyValue | None], head: WatchEvent | None) -> None:
        for key in objects:
            self._want(key)
        if head is not None and not _is_no_change(head):
            logger.warning(
                "another program has changed the key %s of etcd (revision %d): that is no change of an object",
                printable(head.now.key),
                head.now.mod_revision,
            )

    def _want(self, key: bytes) -> None:
        self._pending[key] = None
        self._wanted.set()

    def _note(self, stored: KeyValue, is_gone: bool) -> None:
        key = self._keys.quarantined(stored.key)
        if is_gone:
            self.quarantined.pop(key, None)
        else:
            try:
                found = Quarantined.decode(stored.value)
            except (Unreadable, UnknownLayout):
                found = Quarantined(stored.mod_revision, 0, "another program has put it there", b"")
            found = replace(found, value=b"")
            if self.quarantined.get(key) != found:
                logger.warning(
                    "the key %s of etcd has been in quarantine since version %d: %s; see it with `etcdctl get %s`, and "
                    "delete that key when nobody needs it",
                    printable(key),
                    self._keys.version(found.revision),
                    found.why,
                    printable(stored.key),
                )
            self.quarantined[key] = found
        self._is_reported = False
        self._wanted.set()

    async def run(self) -> None:
        """Settle reported keys, forever."""
        while not await self._succeeds(self._read_quarantine):
            await trio.sleep(PAUSE_SECONDS)
        while True:
            if not self._is_reported:
                self._is_reported = True
                await self.on_change(dict(self.quarantined))
            await self._wanted.wait()
            self._wanted = trio.Event()
            pending, self._pending = self._pending, {}
            later = [key for key in pending if not await self._succeeds(partial(self._settle, key))]
            if later:
                await trio.sleep(PAUSE_SECONDS)
                for key in later:
                    self._want(key)

    async def _succeeds(self, call: Callable[[], Awaitable[None]]) -> bool:
        try:
            await call()
        except (EtcdError, NotKnownYet) as error:
            if str(error) != self._logged:
                self._logged = str(error)
                logger.warning("a change of another program in etcd is not settled yet: %s", error)
            return False
        except Exception as crash:  # of one key; the others must not wait for it
            if repr(crash) != self._logged:
                self._logged = repr(crash)
                logger.exception("a change of another program in etcd is not settled yet")
            return False
        self._logged = ""
        return True

    async def _read_quarantine(self) -> None:
        """Read the quarantine at start. What the watch brings meanwhile takes precedence, also deletes."""
        self._noted = noted = set[bytes]()
        start, end = self._keys.quarantine, prefix_end(self._keys.quarantine)
        while True:
            page = await self._etcd.range(start, end, limit=PAGE)
            for one in page.kvs:
                if one.key not in noted:
                    self._note(one, is_gone=False)
            if not page.more:
                break
            start = page.kvs[-1].key + b"\0"
        self._noted = None

    async def _settle(self, key: bytes) -> None:
        if key in self._guarded:
            await self._restore(key)
        else:
            await self._settle_object(key)

    async def _restore(self, key: bytes) -> None:
        is_right, own = self._guarded[key]
        while True:
            found = (await self._etcd.range(key)).kvs
            if found and is_right(found[0].value):
                return
            version = found[0].mod_revision if found else 0
            logger.warning("another program has changed the key %s of etcd; restoring it", printable(key))
            try:
                await self._etcd.txn([Compare(key, "mod_revision", version)], [Put(key, own)])
            except OutcomeUnknown:
                continue

    async def _settle_object(self, key: bytes) -> None:
        while True:
            state = await self._etcd.txn(
                (), [Get(key), Get(self._keys.adopted, keys_only=True), Get(self._keys.head, keys_only=True)]
            )
            found, adopted, head = state.responses
            assert (
                isinstance(found, RangeResult)
                and isinstance(adopted, RangeResult)
                and isinstance(head, RangeResult)
            )
            if not version_of(
                head
            ):  # another program deleted it, so it does not say which changes this node lacks
                await newest_version(self._etcd, self._keys)
                continue
            await self._feed.completed(self._keys.version(version_of(head)))
            now = found.kvs[0] if found.kvs else None
            if await self._adopt(key, now, version_of(adopted)):
                return

    async def _adopt(self, key: bytes, now: KeyValue | None, adopted: int) -> bool:
        """Settle a key at this state. Returns whether it is settled."""
        row = self._row(key)
        written = 0 if row is None else self._keys.revision(row.offset)
        if (0 if now is None else now.mod_revision) == written:
            return True
        compares = [
            Compare(key, "mod_revision", 0 if now is None else now.mod_revision),
            Compare(self._keys.adopted, "mod_revision", adopted),
        ]
        if now is None:
            assert row is not None
            return await self._commit(key, DELETED, compares, self._removal(key, row, DELETED))
        try:
            claims, then = self._update(key, now, row)
            return await self._commit(key, WRITTEN, [*compares, *claims], then)
        except (Unreadable, UnknownLayout, _Refused) as why:
            return await self._quarantine(key, now, row, compares, str(why))

    def _row(self, key: bytes) -> Row | None:
        try:
            type_name, namespace, name = self._keys.parse_object(key)
        except Unreadable:
            return None
        type_id = self._journal.type_id(type_name)
        if not type_id:
            return None
        with self._journal.read() as view:
            return view.get(type_id, namespace, name)

    async def _commit(self, key: bytes, what: str, compares: list[Compare], then: list[Operation]) -> bool:
        """Returns False if the state has changed. Raises _Refused if only a claim is in the way."""
        then = [Put(self._keys.adopted, b""), *then]
        try:
            result = await self._etcd.txn(
                compares, then, [Get(one.key, keys_only=True) for one in compares[:2]]
            )
        except OutcomeUnknown:
            return False
        if result.succeeded:
            self.settled += 1
            logger.warning("%s: %s", printable(key), what)
            return True
        versions = [version_of(one) for one in result.responses if isinstance(one, RangeResult)]
        if versions == [one.given for one in compares[:2]]:
            raise _Refused("another Service has its address or its port")
        return False

    def _removal(self, key: bytes, row: Row, reason: str) -> list[Operation]:
        """The event that an object is gone, without a user."""
        type_name, namespace, name = self._keys.parse_object(key)
        body = without_version(row.body, row.offset)
        change = Change("delete", row.offset, self._now(), "", "", reason, urandom(16), row.facts, body)
        head = Head(type_name, namespace, name, change.write_id, change.encode(self._keys.layout))
        claimed = self._claimed(type_name, row.body)
        return [*(DeleteRange(self._keys.of_claim(one)) for one in sorted(claimed)), self._head(head)]

    def _update(self, key: bytes, now: KeyValue, row: Row | None) -> tuple[list[Compare], list[Operation]]:
        """A record of another program as a change without a user. Raises Unreadable, UnknownLayout or NotKnownYet."""
        type_name, namespace, name = self._keys.parse_object(key)
        facts, body = self.check(type_name, namespace, name, Change.decode(now.value).body)
        verb, previous = ("create", 0) if row is None else ("update", row.offset)
        change = Change(verb, previous, self._now(), "", "", WRITTEN, urandom(16), facts, body)
        had = frozenset[str]() if row is None else self._claimed(type_name, row.body)
        wanted = self._claimed(type_name, body)
        compares = [Compare(self._keys.of_claim(one), "create_revision", 0) for one in sorted(wanted - had)]
        then: list[Operation] = [Put(key, change.encode(self._keys.layout))]
        then += [Put(self._keys.of_claim(one), b"") for one in sorted(wanted - had)]
        then += [DeleteRange(self._keys.of_claim(one)) for one in sorted(had - wanted)]
        return compares, [*then, self._head(Head(type_name, namespace, name, change.write_id))]

    def _claimed(self, type_name: str, body: bytes) -> frozenset[str]:
        claims = self._claims.get(type_name)
        return frozenset() if claims is None else claims(body)

    def _head(self, head: Head) -> Operation:
        """The last operation of a transaction."""
        return Put(self._keys.head, encode_heads((head,), self._keys.layout))

    async def _quarantine(
        self, key: bytes, now: KeyValue, row: Row | None, compares: list[Compare], why: str
    ) -> bool:
        removal = [] if row is None else self._removal(key, row, UNREADABLE)
        for value in (now.value, now.value[:SHORTENED]):
            record = Quarantined(now.mod_revision, self._now(), why, value).encode()
            moved: list[Operation] = [DeleteRange(key), Put(self._keys.of_quarantine(key), record)]
            try:
                return await self._commit(key, UNREADABLE, compares, [*moved, *removal])
            except EtcdFull:
                raise  # there is no space for a shorter value either
            except EtcdRefused:
                if value is not now.value or len(value) <= SHORTENED:
                    raise
        raise AssertionError("unreachable")


def own_cluster(cluster_id: bytes, dialect: str) -> tuple[bytes, Callable[[bytes], bool]]:
    """The value of the key `cluster`, and whether another value is acceptable: for `guard`."""
    own = Cluster(cluster_id, dialect)
    return own.encode(), lambda value: _equal(Cluster.decode, value, own)


def own_account_key(own: SealedKey) -> tuple[bytes, Callable[[bytes], bool]]:
    """The same for the sealed key of service account tokens."""
    return own.encode(), lambda value: _equal(SealedKey.decode, value, own)


def _equal(decode: Callable[[bytes], object], value: bytes, own: object) -> bool:
    try:
        return decode(value) == own
    except Unreadable:
        return False
    except UnknownLayout:
        return True  # a later release has taken over


def printable(key: bytes) -> str:
    """A key as etcdctl takes it, if it is text on one line: other programs choose it, and logs print it."""
    text = key.decode(errors="backslashreplace")
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _is_no_change(head: WatchEvent) -> bool:
    try:
        return not head.is_delete and not decode_heads(head.now.value)
    except (Unreadable, UnknownLayout):
        return False
