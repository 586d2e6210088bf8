"""Records and serves in one process: the recorder writes the journal of the folder, a read-only server follows it.

    API server -> Recorder -> journal in the folder -> feed of the server -> page, lists, watches, ?at=, history, blame

A folder that has a recording is served at once, whether the API server can be reached or not: it is most useful when
that one cannot. Nothing that the API server does ends the process once there is a recording.

What else follows the recording (an audit sink, rules, ...) is a `Beside`: a task that starts once the recording is
served, and gets the `Flight`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import orjson
import trio
from msgspec.structs import replace

from rewound.actors.access.authorization.chain import AlwaysAllow
from rewound.actors.access.authorize import Decision, Verdict
from rewound.actors.certificates.pki import write_atomically
from rewound.actors.names import NAMES
from rewound.actors.rewind.moments import rfc3339
from rewound.actors.runtime.clock import Clock, WallClock
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.versions.version import stored_version
from rewound.client.errors import ClientError
from rewound.client.streaming import StreamingSession
from rewound.gateway.message import Response
from rewound.gateway.ops.metrics import Metrics
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.route import PAGE_PATH
from rewound.gateway.settings.settings import Addresses, AuditSettings, Settings
from rewound.gateway.store import Store
from rewound.journal.environment import FULL
from rewound.journal.errors import CannotStore
from rewound.journal.files.private import private_folder
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.recording.flight.cluster_access import ClusterAccess
from rewound.recording.flight.lease import Lease
from rewound.recording.flight.retention import Bounds, Retention
from rewound.recording.flight.shares import documents
from rewound.recording.flight.status import disk_document, file_bytes, save_status, used_bytes
from rewound.recording.record.gaps import UNLISTED, Gaps
from rewound.recording.record.kinds import UnknownKind
from rewound.recording.record.recorder import (
    MASKED,
    NOT_LISTED,
    Progress,
    Recorder,
    RecordOptions,
    WrongFolder,
    load_positions,
)
from rewound.recording.replay.replay import FOR_EVER, WEBHOOKS
from rewound.recording.replay.replay_server import Instance, ReadOnlyAuthorizer, ReadOnlyServer
from rewound.server.extensions import NO_EXTENSIONS, Extensions

logger = logging.getLogger(__name__)

FIRST_PAUSE: Final = 1.0  # seconds between two attempts to reach the API server
LONGEST_PAUSE: Final = 30.0
REFRESH: Final = 120.0  # seconds between two looks at the version and the kinds of the cluster
STATUS_SAVED: Final = 10.0  # seconds between two writes of the document into the folder
CHECK: Final = "first-lists"  # of /readyz
REASON: Final = 200  # characters of a reason there
CLUSTER_CA: Final = "cluster-ca.crt"  # in the folder: the CA of the cluster's client certificates
# Requests for the files of the page, for the API's description, and of probes show nothing of the cluster.
NOT_LOGGED: Final = [
    *(PAGE_PATH.rstrip("/"), f"{PAGE_PATH}*", "/livez*", "/readyz*", "/healthz*", "/metrics*", "/version"),
    *("/api", "/apis", "/api/v1", "/openapi/*"),
]
ACCESS_LOG_MIB: Final = 100  # then a new file begins
ACCESS_LOGS: Final = 10
DOCUMENT: Final = "flight"  # below /debug/rewound/
# Seconds: values that were replaced before need the right to rewind, so that watches, exact lists and continue tokens
# must not reach them without it. API servers of Kubernetes have about as much history for these.
SECRET_HISTORY: Final = 600.0

Ready = Callable[[Addresses], None]


class Beside(Protocol):
    def __call__(self, flight: Flight, /) -> Awaitable[None]: ...


@runtime_checkable
class Reporting(Protocol):
    """A `Beside` that has metrics, and a part of the document of the flight."""

    name: str

    def meter(self, metrics: Metrics) -> None: ...

    def document(self) -> dict[str, Any]: ...


MakeSettings = Callable[[Journal], Settings]


@dataclass(frozen=True, slots=True)
class FlightOptions:
    record: RecordOptions = field(default_factory=RecordOptions)
    bounds: Bounds = field(default_factory=Bounds)
    for_everyone: bool = False  # else users of the cluster sign in, and see what they may read there


class FlightAuthorizer(ReadOnlyAuthorizer):
    """Refuses writes and connections to pods: the cluster itself is elsewhere."""

    read_only = Decision(
        Verdict.DENY,
        "this server shows the recording of a cluster and only reads it; write to the cluster itself",
    )
    not_running = Decision(
        Verdict.DENY,
        "this server shows the recording of a cluster, whose pods, services and nodes are not reached through it",
    )


class Flight:
    """One cluster: its folder, its recorder and its server."""

    def __init__(
        self,
        session: StreamingSession,
        folder: Path,
        options: FlightOptions,
        make_settings: MakeSettings,
        *,
        clock: Clock | None = None,
        extensions: Extensions = NO_EXTENSIONS,
        beside: Sequence[Beside] = (),
        report: Callable[[Progress], None] = lambda _: None,
        lease: Lease | None = None,
    ) -> None:
        """`lease`: it records only while that is held."""
        self.folder = folder
        self.options = options
        self.clock = clock or WallClock()
        self.problem = ""  # why nothing is recorded at the moment; empty while something is
        self.recorder: Recorder | None = None  # while it records
        self.gaps = Gaps(folder)
        self._session = session
        self._make_settings = make_settings
        self._extensions = extensions
        self._beside = beside
        self._report = report
        self._lease = lease
        self._accepted = False  # the server had all kinds of the options
        self._heard = 0  # when the server last sent something, in microseconds since 1970
        self._began = 0  # when the first lists were complete
        self._listed = False  # the recording is exact from the first lists on
        self._journal: Journal | None = None
        self._server: ReadOnlyServer | None = None
        self._retention: Retention | None = None

    @property
    def server_url(self) -> str:
        """The address of the recorded server."""
        return self._session.target.server

    @property
    def journal(self) -> Journal:
        assert self._journal is not None, "it runs"
        return self._journal

    @property
    def store(self) -> Store:
        """Of the server, as long as the cluster is not upgraded."""
        assert self._server is not None, "it runs"
        return self._server.instance.store

    async def run(self, ready: Ready, stop: trio.Event) -> None:
        """Record and serve until `stop` is set.

        Raises ClientError for a new folder if the server cannot be recorded; JournalError and OSError for a folder
        that cannot be used.
        """
        found = load_positions(self.folder)
        begun: Recorder | None = None
        if found is None or not (self.folder / "journal").exists():
            begun = self._make_recorder()
            if not await _unless_stopped(begun.prepare, stop):
                return
            self._journal = _create(self.folder, begun)
        else:
            self._listed = bool(found.exact_from) and not any(
                one.why == UNLISTED for one in self.gaps.lasting()
            )
            self._heard, self._began = found.saved, found.began
            self._journal = _open(self.folder)
        try:
            await self._run(begun, ready, stop)
        finally:
            self._journal.close()

    async def _run(self, begun: Recorder | None, ready: Ready, stop: trio.Event) -> None:
        extensions = replace(
            self._extensions,
            authorizers=(FlightAuthorizer(), *self._extensions.authorizers),
            add_controls=self._add_document,
        )
        access: ClusterAccess | None = None
        if self.options.for_everyone:
            extensions = replace(extensions, authorizers=(*extensions.authorizers, AlwaysAllow()))
        else:
            access = self._cluster_access()
            await access.begin()
            extensions = replace(
                extensions,
                token_methods=(*extensions.token_methods, access.tokens),
                authorizers=(*extensions.authorizers, *access.authorizers),
            )
        server = self._server = ReadOnlyServer(
            self._make_settings(self.journal), self.journal, self.clock, extensions, self._begin_instance
        )
        async with trio.open_nursery() as nursery:

            def serving(addresses: Addresses) -> None:
                nursery.start_soon(self._record_while_held, begun)
                nursery.start_soon(self._keep_status)
                if access is not None:
                    nursery.start_soon(access.run)
                for one in self._beside:
                    nursery.start_soon(one, self)
                ready(addresses)

            await server.run(serving, stop)
            nursery.cancel_scope.cancel()

    def _cluster_access(self) -> ClusterAccess:
        with_secrets = self.options.record.with_secrets
        names, ca_file = NAMES[self.journal.dialect], self.folder / CLUSTER_CA
        return ClusterAccess(self._session, names, ca_file, with_secrets=with_secrets)

    def _begin_instance(self, instance: Instance, nursery: trio.Nursery) -> None:
        instance.server.health.add(CHECK, self._readiness_problem, kinds=("readyz",))
        store = instance.store
        retention = self._retention = Retention(
            self.journal, store.committer, self.clock, self.options.bounds
        )
        nursery.start_soon(store.supervisor.keep, "housekeeping", retention.housekeeping.run)
        nursery.start_soon(store.supervisor.keep, "retention", retention.run)
        self._meter(instance.server.metrics)

    def _meter(self, metrics: Metrics) -> None:
        metrics.gauge(
            "rewound_flight_recording",
            "Whether changes of the cluster are recorded; 0 while its API server cannot be reached.",
            lambda: int(self._is_recording()),
        )
        metrics.gauge(
            "rewound_flight_lag_seconds",
            "How long the oldest change waits for the journal; while nothing is recorded, the silence.",
            self._lag,
        )
        metrics.gauge(
            "rewound_flight_silent_seconds",
            "Since when the API server has sent nothing, not even a bookmark.",
            self._silence,
        )
        metrics.gauge(
            "rewound_flight_kinds",
            "Kinds that are recorded.",
            lambda: self._progress().kinds,
        )
        metrics.gauge(
            "rewound_flight_left_out_kinds",
            "Kinds that this user may not read, that are not served any more, that cannot be watched, or that fail.",
            lambda: sum(len(one["kinds"]) for one in self._left_out() if one["why"] != MASKED),
        )
        metrics.gauge(
            "rewound_flight_left_out_objects",
            "Objects of recorded kinds whose newest version could not be recorded.",
            lambda: 0 if self.recorder is None else self.recorder.left_out_objects.total,
        )
        metrics.gauge(
            "rewound_flight_held_changes",
            "Changes that have arrived and wait for the journal.",
            lambda: self._progress().held,
        )
        metrics.gauge(
            "rewound_flight_http2_connections",
            "Connections that the requests and watches of the recorder share; 0: over HTTP/1.1 each has its own.",
            lambda: self._session.statistics().get("connections", 0),
        )
        metrics.gauge(
            "rewound_flight_gaps",
            "Stretches of time of which versions are missing in the recording.",
            lambda: self.gaps.count(),
        )
        metrics.gauge(
            "rewound_flight_used_bytes",
            "Bytes of the journal's pages that hold something.",
            lambda: used_bytes(self.journal),
        )
        metrics.gauge(
            "rewound_flight_file_bytes",
            "Bytes of the journal's file, which never becomes smaller.",
            lambda: file_bytes(self.journal),
        )
        metrics.gauge(
            "rewound_flight_max_bytes",
            "The limit of --max-disk; 0: none.",
            lambda: self.options.bounds.max_disk,
        )
        metrics.gauge(
            "rewound_flight_share_bytes",
            "Bytes of events that could be removed, of the largest namespaces, or kinds that have none.",
            lambda: {(one["namespace"], one["kind"]): one["bytes"] for one in self._shares()},
            *("namespace", "kind"),
        )
        for one in self._beside:
            if isinstance(one, Reporting):
                one.meter(metrics)

    def _readiness_problem(self) -> str | None:
        """An API server that is lost does not count: what was recorded before is what people want to see then."""
        if self._listed:
            return None
        unlisted = {} if self.recorder is None else self.recorder.unlisted()
        reasons = [f"{kind}: {why[:REASON]}" for kind, why in unlisted.items() if why != NOT_LISTED]
        return ": ".join(["the first lists are not complete", *reasons[:1]])

    # Recording.

    def _make_recorder(self) -> Recorder:
        return Recorder(
            self._session,
            self.folder,
            self.options.record,
            self.clock.now,
            self._progressed,
            self._publish,
            self.gaps,
            again=self._accepted,
        )

    def _publish(self, events: list[Event]) -> None:
        assert self._server is not None, "it runs"
        self._server.publish(events)

    def _progressed(self, progress: Progress) -> None:
        if self.recorder is not None and self.recorder.started.is_set() and not self.recorder.unlisted():
            self._listed = True
        self._report(progress)

    async def _record_while_held(self, begun: Recorder | None) -> None:
        lease = self._lease
        if lease is None:
            await self._record(begun)
            return
        while True:
            self.problem = "another recorder may hold the Lease"
            await lease.wait(held=True)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._record, begun)
                await lease.wait(held=False)
                nursery.cancel_scope.cancel()
            begun = None

    async def _record(self, begun: Recorder | None) -> None:
        """Record until cancelled, whatever happens to the API server. `begun` is prepared, for a new folder."""
        pause, is_new = FIRST_PAUSE, begun is not None
        self._accepted = self._accepted or is_new
        while True:
            prepared, recorder, begun = begun is not None, begun or self._make_recorder(), None
            try:
                if not prepared:
                    await self._prepare(recorder)
                self._accepted = True
                self.recorder, self.problem = recorder, ""
                await self._record_version(recorder)
                continue  # with the new version
            except Exception as error:
                problem, *others = _causes(error)
                has_begun = recorder.started.is_set()
                if not all(map(_may_pass, (problem, *others))) or (is_new and not has_begun):
                    raise
                if isinstance(problem, WrongFolder) or (
                    isinstance(problem, UnknownKind) and not self._accepted
                ):
                    raise  # flags that do not fit: nothing would be recorded until somebody changes them
                self.problem = _problem_text(problem, self.folder)
            finally:
                self.recorder = None
                is_new = is_new and not recorder.started.is_set()
            pause = FIRST_PAUSE if has_begun else pause
            logger.warning("nothing is recorded: %s; trying again in %g s", self.problem, pause)
            await trio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _record_version(self, recorder: Recorder) -> None:
        """Record until the cluster is upgraded; look for kinds now and then."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recorder.record_into, self.journal)
            await recorder.started.wait()
            while True:
                await trio.sleep(REFRESH)
                recorder.look_for_kinds()
                try:
                    if await recorder.is_upgraded():
                        break
                except ClientError:
                    continue  # it is lost, or does not say its version to this user
            nursery.cancel_scope.cancel()

    async def _prepare(self, recorder: Recorder) -> None:
        release = await recorder.prepare()
        if recorder.dialect != self.journal.dialect:
            raise WrongFolder(
                f"{self.folder} has a recording of a server with the dialect {self.journal.dialect}, this one has "
                f"{recorder.dialect}; name another folder"
            )
        if release.record != self.journal.kubernetes:
            assert self._server is not None, "it runs"
            logger.warning(
                "the cluster is Kubernetes %s now; it was %s",
                stored_version(release.record),
                stored_version(self.journal.kubernetes),
            )
            self.journal.set_version(release.record)
            await self._server.replace(self._make_settings(self.journal))

    # What it says about itself.

    def _is_recording(self) -> bool:
        recorder = self.recorder
        return recorder is not None and recorder.started.is_set() and not recorder.problem

    def _silence(self) -> float:
        if self.recorder is not None:
            self._heard = max(self._heard, self.recorder.seen)
        return max(0.0, (self.clock.now() - self._heard) / 1e6) if self._heard else 0.0

    def _lag(self) -> float:
        return (
            self.recorder.waiting if self.recorder is not None and self._is_recording() else self._silence()
        )

    def _progress(self) -> Progress:
        return Progress(0, 0, 0, 0, 0) if self.recorder is None else self.recorder.progress()

    def _left_out(self) -> list[dict[str, Any]]:
        return [] if self.recorder is None else self.recorder.left_out()

    async def _keep_status(self) -> None:
        """Keep the document in the folder, for `rewound status --data-dir`."""
        while True:
            document = self.document()
            try:
                await run_in_thread(partial(save_status, self.folder, document))
            except OSError as error:
                logger.warning("the status is not stored: %s", error)
            await trio.sleep(STATUS_SAVED)

    def _add_document(self, add: Callable[..., None]) -> None:
        add("GET", DOCUMENT, self._show)

    async def _show(self, context: RequestContext) -> Response:
        return await render.document(context, self.document())

    def _shares(self) -> list[dict[str, Any]]:
        """Who takes the room of the journal, the largest first."""
        shares = None if self._retention is None else self._retention.shares
        return [] if shares is None else documents(shares, _by_number(self.journal))

    def document(self) -> dict[str, Any]:
        progress, bounds = self._progress(), self.options.bounds
        if self.recorder is not None:
            self._began = self._began or self.recorder.began
        return {
            "kind": "Flight",
            "at": rfc3339(self.clock.now()),
            "server": self.server_url,
            "kubernetes": stored_version(self.journal.kubernetes),
            "recording": self._is_recording(),
            "problem": self.problem or ("" if self.recorder is None else self.recorder.problem),
            "lagSeconds": round(self._lag(), 3),
            "silentSeconds": round(self._silence(), 3),
            "listed": self._listed,
            "began": rfc3339(self._began) if self._began else None,
            "kinds": progress.kinds,
            "listedKinds": progress.listed,
            "objects": progress.objects,
            "events": progress.events,
            "held": progress.held,
            "version": str(self.journal.head),
            "leftOut": self._left_out(),
            "leftOutObjects": [] if self.recorder is None else self.recorder.left_out_objects.documents(),
            "gaps": self.gaps.documents(),
            "retention": {
                "seconds": bounds.age,
                "byKind": dict(bounds.by_kind),
                "forget": dict(bounds.forget),
            },
            "disk": {
                **disk_document(self.journal),
                "most": bounds.max_disk,
                "problem": "" if self._retention is None else self._retention.problem,
                "warning": "" if self._retention is None else self._retention.warning,
                "shares": self._shares(),
            },
            **{one.name: one.document() for one in self._beside if isinstance(one, Reporting)},
        }


def flight_settings(
    journal: Journal,
    data_dir: Path,
    settings: type[Settings],
    *,
    for_everyone: bool = False,
    with_secrets: bool = False,
    access_log: str = "",
    **given: Any,
) -> Settings:
    """Settings of a server whose own authorization allows nothing: the recorded cluster decides before.

    The recorded roles do not apply, only those of now. With `for_everyone`, nobody signs in. `with_secrets`: values of
    Secrets are recorded. `access_log` is a file, or - for stdout; empty: there is none.
    """
    if access_log:
        given["audit"] = _access_log(journal, data_dir, access_log)
    ca_file = data_dir / CLUSTER_CA
    if not for_everyone and given.get("secure_port", 1) and ca_file.exists():
        given["client_ca_file"] = ca_file
    return settings(
        data_dir=data_dir,
        dialect=journal.dialect,
        kubernetes_version=stored_version(journal.kubernetes),
        authorization_mode="AlwaysDeny",
        anonymous_auth=for_everyone,
        public_health=True,  # a kubelet has no credentials, and the cluster may be lost
        disable_admission_plugins=WEBHOOKS,
        watch_history=FOR_EVER,
        secret_history=SECRET_HISTORY if with_secrets else None,
        journal_retention=None,
        **given,
    )


def _access_log(journal: Journal, data_dir: Path, path: str) -> AuditSettings:
    """The settings of an audit log that says who looked at what, and of nothing that clients do by themselves."""
    policy = {
        "apiVersion": f"{NAMES[journal.dialect].group('audit')}/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "None", "nonResourceURLs": NOT_LOGGED}, {"level": "Metadata"}],
    }
    file = data_dir / "access-policy.json"
    write_atomically(file, orjson.dumps(policy), 0o600)
    return AuditSettings(
        audit_policy_file=file,
        audit_log_path=path,
        audit_log_maxsize=ACCESS_LOG_MIB,
        audit_log_maxbackup=ACCESS_LOGS,
    )


def _create(folder: Path, recorder: Recorder) -> Journal:
    private_folder(folder)  # others must not read it
    recorder.save_beginning()  # before anything else: a folder without it would be refused after a kill
    return Journal.open(folder / "journal", dialect=recorder.dialect, kubernetes=recorder.release.record)


def _open(folder: Path) -> Journal:
    """Open the journal of a recording, whose dialect the folder knows."""
    found = Journal.open(folder / "journal", readonly=True, check_tail=False)
    dialect, kubernetes = found.dialect, found.kubernetes
    found.close()
    return Journal.open(folder / "journal", dialect=dialect, kubernetes=kubernetes)


async def _unless_stopped(work: Callable[[], Awaitable[object]], stop: trio.Event) -> bool:
    """Await `work`; returns False if it was stopped before its end."""
    done = False
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            await stop.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(wait)
        await work()
        done = True
        nursery.cancel_scope.cancel()
    return done


def _by_number(journal: Journal) -> dict[int, str]:
    return {number: name for name, number in journal.types().items()}


def _causes(error: BaseException) -> list[BaseException]:
    """The errors of the tasks that failed."""
    if isinstance(error, BaseExceptionGroup):
        return [cause for one in error.exceptions for cause in _causes(one)]
    return [error]


def _problem_text(error: BaseException, folder: Path) -> str:
    if isinstance(error, OSError):
        return f"no room in {error.filename or folder} ({error.strerror}): free some space there"
    return str(error)


def _may_pass(error: BaseException) -> bool:
    """Whether recording may go on later: the API server, or room on the disk, is missing."""
    return isinstance(error, ClientError | CannotStore) or (
        isinstance(error, OSError) and error.errno in FULL
    )
