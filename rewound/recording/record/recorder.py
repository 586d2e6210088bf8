"""Records a server: finds its kinds, follows each, and writes the changes into the journal of a data folder.

    discovery -> a Follower for each kind -> Reordering (the order of versions) -> RecordingWriter (the journal)

The folder is complete and readable at any time. A recording that was interrupted continues where it ended.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
import trio

from rewound.actors.golang.json import unescaped
from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import NAMES
from rewound.actors.versions.features import WATCH_LIST, Release, choose_release
from rewound.actors.versions.version import nearest_version
from rewound.client.errors import ClientError, StatusError
from rewound.client.streaming import StreamingSession
from rewound.client.target import without_credentials
from rewound.journal.files.private import private_folder, read_regular
from rewound.journal.log import Journal
from rewound.recording.record.audit_following import AuditLog
from rewound.recording.record.audit_sink import FOLDER as SINK_FOLDER
from rewound.recording.record.audit_sink import AuditSink, SinkOptions
from rewound.recording.record.authors import LATE_SECONDS, Authors, Statistics
from rewound.recording.record.changes import Change, in_order, number_of
from rewound.recording.record.definitions import built_in_definitions, definition_of
from rewound.recording.record.first_lists import FirstLists
from rewound.recording.record.follower import Follower, KindState, WatchLists
from rewound.recording.record.gaps import FAILING, GONE, REFUSED, STOPPED, UNLISTED, UNREACHABLE, Gaps
from rewound.recording.record.gaps import FILE as GAPS
from rewound.recording.record.kinds import (
    MAX_KINDS,
    ClusterScopedKind,
    RecordedKind,
    UnknownKind,
    dialect_of,
    discover,
    version_of,
)
from rewound.recording.record.late_authors import LateAuthors
from rewound.recording.record.left_out import FILE as LEFT_OUT_FILE
from rewound.recording.record.left_out import LeftOut
from rewound.recording.record.refused import RefusedRequests
from rewound.recording.record.requests import Request, Unreadable, requests_in
from rewound.recording.record.writer import Publish, RecordingWriter, unpublished

logger = logging.getLogger(__name__)

LISTS: Final = 8  # at the same time
TICK: Final = 0.1  # seconds between two looks at what has arrived
SAVED_EVERY: Final = 1.0  # seconds between two writes of the positions
# Seconds after which kinds that cannot be listed are no longer waited for: in which the server has sent nothing of any
# of them, and in which no other kind was complete.
PATIENCE: Final = 60.0
LONGEST_PATIENCE: Final = 600.0
# Limits of what waits for the journal: beyond them, lists and watches are not read.
MOST_HELD: Final = 50_000  # changes
MOST_HELD_BYTES: Final = 64 << 20
MOST_LISTED_BYTES: Final = 64 << 30  # of the first lists, on disk
REDISCOVERY: Final = 1.0  # seconds after a change of a definition
NOT_SERVED: Final = "the server no longer serves it; its objects stay as they were last"
NOT_LISTED: Final = "its first list is not complete"
NOT_SEEN: Final = "the API server has not responded yet"
NOT_WATCHED: Final = "it can be listed, but not watched"
MASKED: Final = "their values; with --with-secrets they are recorded"


class TooLarge(Exception):
    """The server has more than can be recorded at once; the text says what to do."""


class WrongFolder(ClientError):
    """The folder has something else than a recording of this cluster with these flags."""


class NothingReadable(ClientError):
    """The user may read none of the kinds."""

    def __init__(self, refusal: str) -> None:
        super().__init__(
            f"no kind could be read, so nothing was recorded: 403: {refusal}; grant this user list and watch, choose "
            "another one with --context or --token, or only what the user may read with --kinds and --namespace"
        )


@dataclass(frozen=True, slots=True)
class RecordOptions:
    kinds: tuple[str, ...] = ()  # empty: all
    namespace: str = ""  # empty: all, with what is in none
    with_secrets: bool = False
    duration: float | None = None  # seconds after the first lists; None: until it is stopped
    audit_log: str = ""  # a file, or - for stdin; empty: there is none
    sink: SinkOptions | None = None  # instead of a file


@dataclass(frozen=True, slots=True)
class Progress:
    kinds: int
    listed: int  # kinds whose first list is complete
    objects: int
    events: int
    held: int


class Recorder:
    def __init__(
        self,
        session: StreamingSession,
        folder: Path,
        options: RecordOptions,
        now: Callable[[], int],
        report: Callable[[Progress], None] = lambda _: None,
        publish: Publish = unpublished,
        gaps: Gaps | None = None,
        *,
        again: bool = False,
    ) -> None:
        """`now()` in microseconds since 1970; `publish` gets the events that have become durable.

        `gaps` are those of the folder, if somebody else reads them too. `again`: the server had all kinds of the
        options before, so those that it lacks are left out.
        """
        self._session = session
        self._folder = folder
        self._options = options
        self._now = now
        self._report = report
        self._publish = publish
        self._states: dict[str, KindState] = {}
        self._refused: dict[str, str] = {}  # types that this user may not read, with the message of the 403
        self._gone: dict[str, str] = {}  # types with recorded objects that are not followed any more, and why
        self._again = again
        self.gaps = Gaps(folder) if gaps is None else gaps
        self.left_out_objects = LeftOut(folder, self.gaps, now)
        self._has_read = False  # whether a kind that has ended was read before
        self._authors: Authors | None = None
        self._audit_log: AuditLog | None = None
        self._late: LateAuthors | None = None
        self.sink: AuditSink | None = None  # while it runs, with --audit-webhook-port
        self._reordering = Reordering(trio.current_time)
        self._lists_on_disk: FirstLists | None = None  # until they are complete
        self._rediscover = trio.Event()
        self._lists = trio.CapacityLimiter(LISTS)
        self._saved = 0.0
        self.started = trio.Event()  # the first lists are in the journal

    @property
    def writer(self) -> RecordingWriter:
        return self._writer

    async def run(self) -> RecordingWriter:
        """Record until cancelled or for the duration; everything that has arrived is in the journal then.

        Raises ClientError and TooLarge before the first list; JournalError and OSError; and NothingReadable, which
        leaves an empty folder as it was.
        """
        release = await self.prepare()
        existed, is_new = self._folder.exists(), load_positions(self._folder) is None
        private_folder(self._folder)  # others must not read it
        journal = Journal.open(
            self._folder / "journal", dialect=self._names.dialect, kubernetes=release.record
        )
        try:
            await self.record_into(journal)
        finally:
            journal.close()
            if is_new and self.nothing_readable:
                remove_recording(self._folder, with_folder=not existed)
        return self._writer

    async def prepare(self) -> Release:
        """Ask the server what it is and has; nothing is written. Returns its version of Kubernetes.

        Raises ClientError: WrongFolder if the folder does not fit.
        """
        self._names = await dialect_of(self._session, NAMES.values())
        self._positions = await self._load_positions()
        version = await version_of(self._session, self._names) or self._positions.kubernetes
        self._positions.kubernetes = version = version or nearest_version("")
        self._release = choose_release(version)
        self._watch_lists = WatchLists(
            WATCH_LIST in self._release.features, f"{self._names.group_domain}/initial-events-end"
        )
        self._catalog = built_in(self._names, self._release)
        self._type_names = {(one.group, one.plural): one.type_name for one in self._catalog.declared}
        self._kinds = await self._wanted()
        self._again = True
        return self._release

    async def is_upgraded(self) -> bool:
        """Whether the server says another version of Kubernetes than in `prepare`. Raises ClientError."""
        said = await version_of(self._session, self._names)
        return bool(said) and said != self._release.version

    def look_for_kinds(self) -> None:
        """Look for kinds that are new or served again, and try those again that this user could not read."""
        self._refused.clear()
        self._rediscover.set()

    def save_beginning(self) -> None:
        """Mark the folder, which must exist, as that of this recording."""
        save_positions(self._folder, self._positions)

    async def record_into(self, journal: Journal) -> None:
        """Record what `prepare` found into the open journal of the folder; otherwise like `run`."""
        journal.set_version(
            self._release.record
        )  # the server may have been upgraded since the last recording
        save_positions(self._folder, self._positions)
        journal.register_types([*(one.type_name for one in self._kinds), definition_type(self._names)])
        self._follow_authors(journal)
        self._writer = RecordingWriter(journal, self._authors, self._publish, self._leave_out)
        self.left_out_objects.load()
        self._lists_on_disk = FirstLists(self._folder)
        if self._positions.saved and self._positions.exact_from:
            self.gaps.begin(STOPPED, self._positions.saved, message="the recorder did not run")
        self.gaps.end(REFUSED, self._now())  # what still is refused begins again
        self._find_gone()
        try:
            await self._follow(self._kinds)
        finally:
            self._finish()

    def _finish(self) -> None:
        """Write what has arrived, and close all files.

        If the journal could not be written, the next recorder begins with what was saved before.
        """
        with ExitStack() as closing:
            if self._authors is not None:
                closing.callback(self._authors.close)
            if self.sink is not None:
                closing.callback(self.sink.spool.close)
            if self._lists_on_disk is not None:
                closing.callback(self._lists_on_disk.close)
            if self._audit_log is not None:
                self._audit_log.read_rest()
            if self._writer.failed:
                return
            if self.started.is_set():
                self._writer.write(self._reordering.all())
                for state in self._states.values():
                    state.unwritten.clear()
                self._save()
            if self._late is not None:
                self._late.finish()

    @property
    def release(self) -> Release:
        """The version of Kubernetes of the server, after `prepare`."""
        return self._release

    @property
    def dialect(self) -> str:
        return self._names.dialect

    @property
    def nothing_readable(self) -> bool:
        """Whether no kind could be read, at least one of them because this user may not."""
        return bool(self._refused) and not self._states and not self._has_read

    def progress(self) -> Progress:
        states = self._states.values()
        return Progress(
            len(states),
            sum(one.listed for one in states),
            sum(len(one.names) for one in states),
            self._writer.events if states else 0,
            self._held(),
        )

    def _held(self) -> int:
        """The changes that wait for the journal."""
        return len(self._reordering) + (0 if self._lists_on_disk is None else len(self._lists_on_disk))

    @property
    def began(self) -> int:
        """When the first lists of the folder were complete, in microseconds since 1970; 0: they are not."""
        return self._positions.began

    @property
    def waiting(self) -> float:
        """For how many seconds the oldest change has waited for the journal."""
        return self._reordering.waiting

    def unlisted(self) -> dict[str, str]:
        """The kinds that could not be listed yet, and why."""
        return {name: one.problem or NOT_LISTED for name, one in self._states.items() if not one.listed}

    def failing(self) -> dict[str, str]:
        """The kinds that are not recorded at the moment, although they should be, and why."""
        found = self.unlisted() if self.started.is_set() else {}
        for gap in self.gaps.lasting():
            if gap.why in (UNREACHABLE, FAILING):
                for name in gap.kinds & self._states.keys():
                    found[name] = self._states[name].problem or gap.message or NOT_SEEN
        return found

    @property
    def problem(self) -> str:
        """Why nothing is recorded; empty if something is."""
        failing = self.failing() if self.started.is_set() else self.unlisted()
        if not failing or (self.started.is_set() and len(failing) < len(self._states)):
            return ""
        name = next((one for one, why in failing.items() if why != NOT_LISTED), "")
        return failing[name] if name else ""

    def left_out(self) -> list[dict[str, Any]]:
        """What of the server is not recorded, and why: kinds, or none where the reason says what."""
        options, kinds_by_reason = self._options, dict[str, list[str]]()
        for name, why in [*self._refused.items(), *self._gone.items(), *self.failing().items()]:
            kinds_by_reason.setdefault(why, []).append(name)
        if not options.kinds:
            kinds_by_reason[NOT_WATCHED] = list(self._discovered.unwatched)
        found = [{"kinds": sorted(kinds), "why": why} for why, kinds in kinds_by_reason.items() if kinds]
        found += [{"kinds": [], "why": one} for one in self._discovered.problems]
        found += [{"kinds": [], "why": one} for one in self._unread_audit()]
        if not options.with_secrets and "secrets" in self._states:
            found.append({"kinds": ["secrets"], "why": MASKED})
        if options.kinds:
            found.append({"kinds": [], "why": f"all but {', '.join(options.kinds)}, by --kinds"})
        if options.namespace:
            found.append({"kinds": [], "why": f"all but namespace {options.namespace}, by --namespace"})
        return found

    def _unread_audit(self) -> list[str]:
        """How many audit events could not be read, and why the first could not."""
        authors, sink = self.authors, self.sink
        read = (authors, None if sink is None else sink.statistics)
        return [
            f"{one.unreadable:,} events of the audit log, whose changes have no author: {one.why}"
            for one in read
            if one is not None and one.unreadable
        ]

    @property
    def seen(self) -> int:
        """When the server last sent something, in microseconds since 1970; 0 if it has not yet."""
        return max((one.seen for one in self._states.values()), default=0)

    def follows(self, type_name: str) -> bool:
        return type_name in self._states

    def is_listed(self, type_name: str) -> bool:
        """Whether the first list of a type is complete."""
        state = self._states.get(type_name)
        return state is not None and state.listed

    # Choosing what to record.

    async def _load_positions(self) -> Positions:
        options, server = self._options, self._session.target.server
        found, cluster = load_positions(self._folder), await self._cluster()
        if found is None:
            if self._folder.exists() and any(one.name != BUILDING for one in self._folder.iterdir()):
                raise WrongFolder(f"{self._folder} is not empty and has no recording; name another folder")
            return Positions(server, cluster, options.namespace, options.with_secrets)
        if found.cluster and cluster and found.cluster != cluster:
            raise WrongFolder(
                f"{self._folder} has a recording of another cluster ({found.server}); name another folder"
            )
        if (found.namespace, found.secrets) != (options.namespace, options.with_secrets):
            raise WrongFolder(
                f"{self._folder} was begun with another --namespace or without --with-secrets; "
                "give the same flags, or name another folder"
            )
        found.server = server
        return found

    async def _cluster(self) -> str:
        """The identity of the cluster, if this user may read it."""
        try:
            path = f"/api/v1/namespaces/{self._names.system_namespace}"
            return str((await self._session.get_document(path))["metadata"]["uid"])
        except (StatusError, KeyError):
            return ""

    async def _wanted(self) -> tuple[RecordedKind, ...]:
        discovered = self._discovered = await discover(self._session, self._catalog, self._names)
        for problem in discovered.problems:
            logger.warning("%s", problem)
        chosen = self._options.kinds
        for text in chosen:
            named = [one for one in discovered.kinds if one.has_name(text)]
            if not named and (self._again or self._was_recorded(text)):
                logger.warning("--kinds: the server does not serve %s now", text)
                continue
            if not named:
                raise UnknownKind(text)
            if self._options.namespace and not any(one.namespaced for one in named):
                raise ClusterScopedKind(text)
        found = [one for one in discovered.kinds if not chosen or any(one.has_name(text) for text in chosen)]
        if self._options.namespace:
            found = [one for one in found if one.namespaced]
        if any(not one.is_built_in for one in found):
            # Custom objects cannot be served without their definitions.
            definitions = [one for one in discovered.kinds if one.type_name == definition_type(self._names)]
            found = [*definitions, *(one for one in found if one not in definitions)]
        if len(found) > MAX_KINDS:
            raise ClientError(f"the server has more than {MAX_KINDS:,} kinds; name some with --kinds")
        return tuple(found)

    def _was_recorded(self, text: str) -> bool:
        name = text.lower()
        return any(name in (one, one.partition(".")[0]) for one in self._positions.kinds)

    # While it runs.

    def _find_gone(self) -> None:
        """Find the kinds of earlier runs that the server no longer serves, or whose groups cannot be read.

        A kind without objects, as that of a deleted definition, misses nothing.
        """
        served = {one.type_name for one in self._discovered.kinds}
        for name in self._positions.kinds.keys() - served:
            if self._writer.versions_of(name):
                self._lose(name)
            else:
                del self._positions.kinds[name]

    def _lose(self, type_name: str) -> None:
        """Note why a kind is not followed any more."""
        unreadable = type_name.partition(".")[2] in self._discovered.unreadable
        why, message = (UNREACHABLE, "its group cannot be read") if unreadable else (GONE, NOT_SERVED)
        if self._gone.get(type_name) != message:
            logger.warning("%s is not recorded: %s", type_name, message)
        self._gone[type_name] = message
        self.gaps.end(GONE if unreadable else UNREACHABLE, self._now(), type_name)
        self.gaps.begin(why, self._now(), [type_name], message)

    async def _follow(self, kinds: tuple[RecordedKind, ...]) -> None:
        async with trio.open_nursery() as nursery:
            for kind in kinds:
                self._start(kind, nursery)
            nursery.start_soon(self._find_new_kinds, nursery)
            if self._audit_log is not None:
                nursery.start_soon(self._audit_log.run)
            if self.sink is not None:
                await nursery.start(self.sink.run)
                logger.info(
                    "the audit webhook listens at %s; start the API servers with --audit-webhook-config-file=%s "
                    "--audit-webhook-batch-max-wait=1s and an audit policy",
                    self.sink.url,
                    self.sink.config_file,
                )
            await self._await_first_lists()
            with trio.move_on_after(
                float("inf") if self._options.duration is None else self._options.duration
            ):
                while True:
                    self._report(self.progress())
                    await trio.sleep(TICK)
                    await self._write(self._reordering.due())
                    if self._late is not None:
                        await self._late.join()
                    self._save_sometimes()
            nursery.cancel_scope.cancel()

    def _follow_authors(self, journal: Journal) -> None:
        """Match the audit log or the audit webhook, if there is one, to the recorded changes."""
        since, sink = journal.time, self._options.sink
        if not self._options.audit_log and sink is None:
            return
        refused = RefusedRequests(self._folder, with_secrets=self._options.with_secrets)
        namespace, late = self._options.namespace, sink is not None
        authors = self._authors = Authors(
            self._type_of, self._states.__contains__, refused, trio.current_time, self._now, namespace, late
        )
        if sink is not None:
            self._receive(sink, authors, journal)
            return
        self._reordering.is_ready = authors.is_ready

        def take(line: bytes) -> None:
            try:
                for request in requests_in(line):
                    authors.add(request)
            except Unreadable as error:
                if not authors.statistics.unreadable:
                    logger.warning("a line or an event of the audit log is left out: %s", error)
                authors.statistics.unreadable += error.events
                authors.statistics.why = authors.statistics.why or str(error)

        # Begin a moment before the last recorded change.
        since = since or self._now()
        self._audit_log = AuditLog(self._options.audit_log, since - EARLIER, take)

    def _receive(self, options: SinkOptions, authors: Authors, journal: Journal) -> None:
        """Take audit events from the webhook, and those that an earlier run acknowledged."""

        def load(request: Request, uses: int, marked: bool) -> None:
            authors.add(request, uses=uses, marked=marked)

        self.sink = AuditSink(
            self._folder, options, authors.add, authors.refused.flush, lambda: self._now() / 1e6
        )
        authors.used = self.sink.spool.note_use
        self._late = LateAuthors(authors, journal)
        self._late.reload(self._now() - int(2 * LATE_SECONDS * 1e6))
        self.sink.load(load)

    @property
    def authors(self) -> Statistics | None:
        """Statistics of the audit log; None without one."""
        return None if self._authors is None else self._authors.statistics

    def _type_of(self, group: str, plural: str) -> str:
        """The type name in the journal for a resource of an audit log."""
        return self._type_names.get((group, plural), f"{plural}.{group}" if group else plural)

    def _start(self, kind: RecordedKind, nursery: trio.Nursery) -> None:
        """Follow a kind, from where its recording ended if there is one."""
        state = KindState(kind, names=self._writer.versions_of(kind.type_name))
        saved, newest = (
            self._positions.kinds.get(kind.type_name, ""),
            self._writer.newest_version(kind.type_name),
        )
        state.position = _later(saved, newest) if saved else ""
        state.flushed = state.position
        state.seen = self._positions.saved
        self._gone.pop(kind.type_name, None)
        self.gaps.end(GONE, self._now(), kind.type_name)
        self._states[kind.type_name] = state
        follower = Follower(
            self._session,
            state,
            self._options.namespace,
            self._take,
            self._now,
            self._lists,
            self.gaps,
            self._writer.written,
            self._watch_lists,
            self.left_out_objects,
            with_secrets=self._options.with_secrets,
        )
        nursery.start_soon(self._run_follower, follower, state)

    async def _run_follower(self, follower: Follower, state: KindState) -> None:
        began = state.position
        await follower.run()
        if follower.refusal:
            self._refused[state.kind.type_name] = follower.refusal
            self.gaps.begin(REFUSED, self._now(), [state.kind.type_name], follower.refusal)
        state.listed = True
        self._has_read |= state.position != began
        name = state.kind.type_name
        self._states.pop(name, None)
        if state.names or follower.refusal:
            self._positions.kinds[name] = ""  # if it comes back, it is listed
        else:
            self._positions.kinds.pop(name, None)
        if state.names and not follower.refusal:
            self._lose(name)
        if self.nothing_readable:
            raise NothingReadable(next(iter(self._refused.values())))

    def _leave_out(self, change: Change, error: Exception) -> None:
        """Mark an object of which no event can be made."""
        logger.error("a change of %s cannot be written", change.kind.type_name, exc_info=error)
        why = str(error) or type(error).__name__
        self.left_out_objects.add(change.kind.type_name, (change.namespace, change.name), why)

    async def _take(self, state: KindState, change: Change) -> None:
        if change.kind.type_name == definition_type(self._names):
            self._rediscover.set()
        on_disk = self._lists_on_disk
        if on_disk is not None and not self._reordering.open:
            state.unwritten.pop(change.sequence, None)  # no position is saved before all of them are written
            on_disk.add(change)
            if on_disk.size > MOST_LISTED_BYTES:
                raise TooLarge(
                    f"the server has more than {MOST_LISTED_BYTES >> 30} GiB of objects; "
                    "record a part of them with --kinds or --namespace"
                )
            return
        held = self._reordering
        held.add(change)
        while len(held) > MOST_HELD or held.size > MOST_HELD_BYTES:
            await trio.sleep(TICK)

    async def _await_first_lists(self) -> None:
        """Wait for all lists, and a moment longer for events since then, before anything is written."""
        assert self._lists_on_disk is not None
        await self._wait_for_lists()
        self._reordering.open = True
        await trio.sleep(HOLD_SECONDS)
        self._add_definitions()
        versions = (number_of(one.first_list) for one in self._states.values())
        began = max((one for one in versions if one is not None), default=0)
        self._positions.exact_from = self._positions.exact_from or began
        self._positions.began = self._positions.began or self._now()
        await self._write_first_lists(self._lists_on_disk)
        if self._authors is not None:
            self._authors.began = began
        self._save()
        self.gaps.end(STOPPED, self._now())
        self.started.set()

    async def _wait_for_lists(self) -> None:
        """Wait until all kinds are listed, or all but those of which the server sends nothing; at least one must be."""
        since = progressed = trio.current_time()
        seen, count, said = 0, -1, ""
        while missing := self.unlisted():
            self._report(self.progress())
            await trio.sleep(TICK)
            now, newest = trio.current_time(), max((self._seen_of(one) for one in missing), default=0)
            if newest != seen:
                seen, progressed = newest, now
            if len(missing) != count:
                count, since = len(missing), now
            if now - progressed <= PATIENCE and now - since <= LONGEST_PATIENCE:
                continue
            names = ", ".join(sorted(missing))
            if any(one.listed for one in self._states.values()):
                logger.warning("recording begins without the first list of %s", names)
                for name, why in missing.items():
                    self.gaps.begin(UNLISTED, self._now(), [name], why, missing=True)
                return
            if self.problem != said:
                said = self.problem
                logger.warning("nothing can be listed, so nothing is recorded yet: %s", said or names)

    def _seen_of(self, type_name: str) -> int:
        state = self._states.get(type_name)
        return 0 if state is None else state.seen

    async def _write_first_lists(self, lists: FirstLists) -> None:
        for change in self._reordering.due(first=True, newest=lists.newest):
            lists.add(change)
            state = self._states.get(change.kind.type_name)
            if state is not None:
                state.unwritten.pop(change.sequence, None)
        await self._writer.write_in_turns(lists.in_order(lambda: self._writer.head), many=True)
        self._lists_on_disk = None
        lists.close()
        if self._positions.exact_from:
            await self._writer.forget_before(self._positions.exact_from)

    async def _find_new_kinds(self, nursery: trio.Nursery) -> None:
        """Look for kinds again whenever a definition has changed."""
        while True:
            await self._rediscover.wait()
            await trio.sleep(REDISCOVERY)
            self._rediscover = trio.Event()
            try:
                kinds = await self._wanted()
            except ClientError as error:
                logger.warning("new kinds cannot be found: %s", error)
                await trio.sleep(REDISCOVERY)
                self._rediscover.set()
                continue
            fresh = [one for one in kinds if one.type_name not in self._refused.keys() | self._states.keys()]
            self._writer.journal.register_types([one.type_name for one in fresh])
            for kind in fresh:
                self._start(kind, nursery)
            self._add_definitions()

    def _add_definitions(self) -> None:
        """Add definitions for recorded kinds that are neither built in nor have a recorded definition."""
        storage = self._catalog.storage(definition_type(self._names))
        definitions = built_in_definitions(self._names, storage)
        state = self._states.get(definitions.type_name)
        known = {name for _, name in state.names} if state is not None else set[str]()
        known |= {name for _, name in self._writer.names_of(definitions.type_name)}
        for one in self._states.values():
            kind = one.kind
            if not kind.is_built_in and kind.group and kind.type_name not in known:
                self._reordering.add(definition_of(kind, definitions, self._names, self._now()))

    # The journal.

    async def _write(self, changes: list[Change]) -> None:
        """Write changes in turns with other tasks. It cannot be cancelled: positions are saved with it."""
        if not changes:
            return
        with trio.CancelScope(shield=True):
            await self._writer.write_in_turns(in_order(changes, lambda: self._writer.head))
        for change in changes:
            state = self._states.get(change.kind.type_name)
            if state is not None:
                state.unwritten.pop(change.sequence, None)

    def _save_sometimes(self) -> None:
        if trio.current_time() - self._saved >= SAVED_EVERY:
            self._save()

    def _save(self) -> None:
        self._saved = trio.current_time()
        self.left_out_objects.save()  # before the positions, after which their events do not come again
        for name, state in self._states.items():
            state.advance()
            if state.flushed:
                self._positions.kinds[name] = state.flushed
        self._positions.saved = self._now()
        save_positions(self._folder, self._positions)
        if self._authors is not None:
            self._authors.refused.flush()


def _later(one: str, other: str) -> str:
    numbers = number_of(one), number_of(other)
    if numbers[0] is not None and numbers[1] is not None:
        return str(max(numbers[0], numbers[1]))
    return one


HOLD_SECONDS = 1.0  # watches of one server are rarely apart by more
LOG_SECONDS: Final = 5.0  # that a change waits for its request in the audit log
EARLIER: Final = 5_000_000  # microseconds: clocks differ, and a request is older than its change


class Reordering:
    """Sorts the changes of all watches by version.

    Each kind has its own watch, and one may be behind another: a change is held for a moment, until those with lower
    versions have arrived too. Nothing is released before all kinds were listed: see `first_lists`.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._held: list[tuple[float, Change]] = []
        self.size = 0  # bytes of what is held
        self.open = False  # whether anything may be released
        # Whether a change need not wait for the audit log; None without a log.
        self.is_ready: Callable[[Change], bool] | None = None

    def __len__(self) -> int:
        return len(self._held)

    @property
    def waiting(self) -> float:
        """Seconds since the oldest of them arrived."""
        return self._now() - self._held[0][0] if self._held else 0.0

    def add(self, change: Change) -> None:
        self._held.append((self._now(), change))
        self.size += len(change.body)

    def due(self, *, first: bool = False, newest: int = 0) -> list[Change]:
        """The changes that have waited long enough, with all that have lower versions, also than `newest`.

        The `first` time they do not wait for the audit log, which rarely has requests from before the recording.
        """
        if not self.open:
            return []
        now = self._now()
        old = [change for arrived, change in self._held if arrived <= now - HOLD_SECONDS]
        if self.is_ready is not None and not first:
            old = self._ready(old, now, self.is_ready)
        if not old and not newest:
            return []
        newest = max([newest, *(one.number for one in old if one.number is not None)])
        released = {id(one) for one in old}
        released |= {id(one) for _, one in self._held if one.number is not None and one.number <= newest}
        found = [one for _, one in self._held if id(one) in released]
        self._held = [(arrived, one) for arrived, one in self._held if id(one) not in released]
        self.size -= sum(len(one.body) for one in found)
        return found

    def _ready(self, old: list[Change], now: float, is_ready: Callable[[Change], bool]) -> list[Change]:
        """The changes that need not wait for the audit log, up to the first, by version, that has to."""
        waiting = [
            change.number or 0
            for arrived, change in self._held
            if now - arrived < LOG_SECONDS and not is_ready(change)
        ]
        if not waiting:
            return old
        return [one for one in old if one.number is not None and one.number < min(waiting)]

    def all(self) -> list[Change]:
        """Release everything, at the end."""
        held, self._held, self.size = self._held, [], 0
        return [change for _, change in held]


FILE = "recording.json"
BUILDING: Final = f"{FILE}.new"
VERSION = 1


@dataclass(slots=True)
class Positions:
    """Where a recording continues after a restart: a file beside the journal, replaced atomically.

        {"version": 1, "server": "https://...", "cluster": "<uid>", "namespace": "", "secrets": false,
         "exactFrom": 1040, "began": 1700000000000000, "saved": 1700000000000000, "kubernetes": "1.31",
         "kinds": {"configmaps": "1042", ...}}

    Each kind has the version up to which all its changes are in the journal; without one it has to be listed. The
    file may be behind the journal after a crash: the journal knows the last change of each kind, and what arrives a
    second time is left out.
    """

    server: str
    cluster: str = ""  # the uid of the system namespace, if it could be read
    namespace: str = ""
    secrets: bool = False  # whether values of Secrets are recorded
    exact_from: int = 0  # the highest version of the first lists; 0: they are not complete
    kinds: dict[str, str] = field(default_factory=dict)
    saved: int = 0  # when the recorder last ran, in microseconds since 1970; 0: it was of an earlier release
    began: int = 0  # when the first lists were complete; 0: they are not, or it was an earlier release
    kubernetes: str = ""  # the version of the server


def load_positions(folder: Path) -> Positions | None:
    """Load the positions; None for a folder without a recording. Raises ClientError if the file cannot be read."""
    path = folder / FILE
    try:
        raw = read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ClientError(f"{path}: {error.strerror}; record into a new folder") from error
    try:
        found = orjson.loads(raw)
        if found["version"] != VERSION:
            raise WrongFolder(f"{path} is of another release of rewound; record into a new folder")
        return Positions(
            without_credentials(str(found["server"])),  # releases before had those of the URL
            str(found["cluster"]),
            str(found["namespace"]),
            bool(found["secrets"]),
            int(found["exactFrom"]),
            {str(name): str(version) for name, version in found["kinds"].items()},
            int(found.get("saved", 0)),
            int(found.get("began", 0)),
            str(found.get("kubernetes", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WrongFolder(f"{path} cannot be read; record into a new folder") from error


def save_positions(folder: Path, positions: Positions) -> None:
    document = {
        "version": VERSION,
        "server": positions.server,
        "cluster": positions.cluster,
        "namespace": positions.namespace,
        "secrets": positions.secrets,
        "exactFrom": positions.exact_from,
        "began": positions.began,
        "saved": positions.saved,
        "kubernetes": positions.kubernetes,
        "kinds": positions.kinds,
    }
    path = folder / FILE
    building = folder / BUILDING
    with building.open("wb") as stream:
        stream.write(unescaped(document, option=orjson.OPT_INDENT_2))
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(building, path)


def remove_recording(folder: Path, *, with_folder: bool) -> None:
    """Remove an empty recording, so that the next one may have other flags."""
    shutil.rmtree(folder / "journal")
    shutil.rmtree(folder / SINK_FOLDER, ignore_errors=True)
    (folder / FILE).unlink()
    for name in (GAPS, LEFT_OUT_FILE):
        (folder / name).unlink(missing_ok=True)
    if with_folder:
        folder.rmdir()
