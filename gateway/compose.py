"""Builds the server from its settings, runs it, and takes it down again without losing anything.

The one place that knows every part. Start: journal, committer, actors, controllers, then the doors; ready when
the first namespaces exist. Stop: readyz fails first, then (after --shutdown-delay-duration) no new connections,
running requests end, the committer drains, the journal closes.
"""

from __future__ import annotations

import os
import resource
import signal
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import orjson
import trio

from actors.access.authenticate import Authenticator, TokenMethod
from actors.access.authorize import Authorizer
from actors.access.modes import authorizer
from actors.access.reviews import Reviews
from actors.access.tokens import read_tokens
from actors.admission.chain import Admission
from actors.admission.roster import plugins
from actors.bootstrap.ensure import ensure
from actors.bootstrap.objects import Whereabouts, api_service, namespaces, priority_classes
from actors.certificates.context import server_context
from actors.certificates.kubeconfig import server_url, write_kubeconfig
from actors.certificates.names import serving_names
from actors.certificates.store import Certificates, prepare
from actors.clock import Clock, WallClock
from actors.controllers.roster import controllers
from actors.kinds.catalog import Catalog
from actors.kinds.features import LIST_CHUNKING
from actors.names import NAMES, Names
from actors.resource.directory import Directory
from actors.stamps import Stamps
from actors.store.committer import Committer
from actors.store.feed import Feed
from actors.store.horizon import Horizon
from actors.store.housekeeping import Housekeeping
from actors.store.reads import Reads
from actors.supervisor import Supervisor
from gateway.connections.limits import Limits
from gateway.connections.server import Server
from gateway.describe.discovery import Discovery
from gateway.describe.openapi.door import OpenApi
from gateway.handlers.dispatch import Dispatch
from gateway.handlers.paths import Paths
from gateway.handlers.pipeline import Pipeline
from gateway.handlers.watches import Opening
from gateway.ops import meters
from gateway.ops.health import Health
from gateway.ops.metrics import Metrics
from gateway.release import RELEASE, SERVED_VERSION
from gateway.requests.errors import plain_failure
from gateway.requests.observer import RequestObserver
from gateway.requests.request import Response
from gateway.settings import Addresses, Settings
from gateway.watch.hub import Hub
from gateway.wire.protobuf.messages import Messages
from journal.log import Journal

# After the doors are closed, how long running requests may take to end.
GRACE = 60.0
HTTPS = 443  # where the Service of a server without a secure port points

Announce = Callable[[Addresses], None]


@dataclass(frozen=True, slots=True)
class Extensions:
    """What a program that embeds the server adds to what the settings ask for."""

    token_methods: Sequence[TokenMethod] = ()  # asked about bearer tokens that the token file does not list
    authorizers: Sequence[Authorizer] = ()  # asked before those of --authorization-mode
    observer: RequestObserver | None = None


NO_EXTENSIONS = Extensions()


@dataclass(frozen=True, slots=True)
class Store:
    """Everything below HTTP."""

    names: Names
    catalog: Catalog
    journal: Journal
    feed: Feed
    committer: Committer
    directory: Directory
    horizon: Horizon
    reads: Reads
    stamps: Stamps
    supervisor: Supervisor


async def serve(settings: Settings, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends the process at once."""
    _raise_file_limit()
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_on_signal, stop)
        await run(settings, announce, stop)
        nursery.cancel_scope.cancel()


def _raise_file_limit() -> None:
    """Every watcher is a file: take as many as this process may have, not the few it was given."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _stop_on_signal(stop: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            if stop.is_set():
                os._exit(128 + number)
            stop.set()


async def run(
    settings: Settings,
    announce: Announce,
    stop: trio.Event,
    clock: Clock | None = None,
    extensions: Extensions = NO_EXTENSIONS,
) -> None:
    clock = clock or WallClock()
    health = Health(trio.current_time, settings.livez_grace_period)
    async with _open_store(settings, clock) as store, trio.open_nursery() as nursery:
        closing = trio.Event()
        # Before the doors open: a list of an empty journal would have version 0, which in a watch means any.
        await ensure(namespaces(store.names), store.catalog, store.journal, store.directory, store.stamps)
        doors = _Doors(settings, store, health, nursery, extensions)
        addresses = await nursery.start(doors.serve, closing)
        await furnish(settings, store)
        health.finish_start()
        announce(addresses)
        await stop.wait()
        health.begin_shutdown()
        await trio.sleep(settings.shutdown_delay_duration)
        closing.set()
        await doors.end_watches()
        await doors.closed.wait()
        nursery.cancel_scope.cancel()


async def furnish(settings: Settings, store: Store) -> None:
    """Store what every cluster has besides its namespaces."""
    names, parts = store.names, (store.catalog, store.journal, store.directory, store.stamps)
    await ensure(priority_classes(names), *parts)
    where = Whereabouts(settings.bind_address, settings.secure_port or HTTPS)
    await ensure(api_service(names, settings.service_ranges, where), *parts)


@asynccontextmanager
async def _open_store(settings: Settings, clock: Clock) -> AsyncIterator[Store]:
    """The journal with its actors and controllers at work; leaving drains and closes it."""
    journal = Journal.open(settings.data_dir / "journal", dialect=settings.dialect)
    try:
        async with trio.open_nursery() as nursery:
            store = _build_store(settings, journal, clock, nursery)
            try:
                yield store
            finally:
                with trio.CancelScope(shield=True):
                    await store.committer.drained()
                nursery.cancel_scope.cancel()
    finally:
        journal.close()


def _build_store(settings: Settings, journal: Journal, clock: Clock, nursery: trio.Nursery) -> Store:
    names = NAMES[settings.dialect]
    catalog = Catalog(names, settings.features, settings.enablement)
    journal.register_types(one.type_name for one in catalog.declared if not one.storage.ephemeral)
    feed, supervisor, stamps = Feed(journal.head), Supervisor(), Stamps(clock)
    committer = Committer(journal, feed)
    available = plugins(names, journal, feed, settings.service_ranges)
    admission = Admission([one for one in available if one.name not in settings.disabled_plugins])
    directory = Directory(catalog, journal, committer, admission, supervisor, nursery)
    horizon = Horizon(journal, clock, round(settings.watch_history * 1_000_000))
    store = Store(
        names,
        catalog,
        journal,
        feed,
        committer,
        directory,
        horizon,
        Reads(journal, feed, horizon, clock),
        stamps,
        supervisor,
    )
    retention = settings.journal_retention
    keep = round(retention * 1_000_000) if retention else None
    housekeeping = Housekeeping(journal, committer, clock, keep)
    nursery.start_soon(supervisor.keep, "committer", committer.run)
    nursery.start_soon(supervisor.keep, "housekeeping", housekeeping.run)
    for loop in controllers(catalog, journal, feed, directory, stamps, names):
        nursery.start_soon(supervisor.keep, loop.name, loop.run)
    return store


class _Doors:
    """The gateway over one store: pipeline, connections, and what they report."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        health: Health,
        nursery: trio.Nursery,
        extensions: Extensions,
    ) -> None:
        self._settings = settings
        self._extensions = extensions
        self._store = store
        self._hub = Hub(store.journal, store.feed, store.horizon.floor, nursery)
        self._addresses = Addresses(None, None)
        self.closed = trio.Event()
        self._metrics = Metrics(RELEASE, store.catalog.serves)
        self._add_checks(health)
        pipeline = self._pipeline(health)
        self._server = Server(pipeline.handle, refuse, Limits(), extensions.observer)
        meters.meter_server(self._metrics, self._server.statistics)
        meters.meter_committer(self._metrics, store.committer.statistics)
        meters.meter_journal(self._metrics, store.journal.statistics)
        meters.meter_mailboxes(self._metrics, store.directory.statistics)
        meters.meter_watches(self._metrics, self._hub.statistics, self._hub.watchers)

    def _pipeline(self, health: Health) -> Pipeline:
        store, settings = self._store, self._settings
        tokens = read_tokens(settings.token_auth_file) if settings.token_auth_file else {}
        extensions = self._extensions
        authorize = authorizer(settings.authorization_mode, store.names, extensions.authorizers)
        authenticator = Authenticator(
            tokens, anonymous=settings.anonymous_auth, methods=extensions.token_methods
        )
        dispatch = Dispatch(
            store.names,
            store.catalog,
            store.journal,
            store.directory,
            store.reads,
            store.stamps,
            authorize,
            Reviews(authenticator, authorize),
            Opening(store.names, self._hub, store.reads, store.journal),
            chunking=LIST_CHUNKING in settings.features,
        )
        discovery = Discovery(store.catalog, dispatch.verbs)
        openapi = OpenApi(store.catalog, store.names, dispatch.verbs, SERVED_VERSION)
        paths = Paths(health, discovery, openapi, self._metrics.scrape, self._advertised)
        messages = Messages(store.catalog, store.names)
        return Pipeline(store.names, authenticator, authorize, dispatch, paths, self._metrics, messages)

    def _add_checks(self, health: Health) -> None:
        committer, supervisor = self._store.committer, self._store.supervisor
        # Not livez: a server that still reads is no better off for being killed because the disk is full.
        health.add("journal", lambda: committer.last_failure or None, kinds=("readyz", "healthz"))
        health.add("actors", lambda: ", ".join(supervisor.failing()) or None)

    def _advertised(self) -> str:
        secure = self._addresses.secure or self._addresses.insecure
        return f"{secure[0]}:{secure[1]}" if secure else ""

    async def serve(
        self, closing: trio.Event, task_status: trio.TaskStatus[Addresses] = trio.TASK_STATUS_IGNORED
    ) -> None:
        settings = self._settings
        tls, certificates = self._tls()
        async with trio.open_nursery() as nursery:
            secure, insecure = await nursery.start(
                lambda task_status: self._server.serve(
                    secure=settings.secure,
                    insecure=settings.insecure,
                    tls=tls,
                    stop=closing,
                    grace=GRACE,
                    task_status=task_status,
                )
            )
            self._addresses = Addresses(secure, insecure)
            if secure is not None and certificates is not None:
                self._write_kubeconfig(certificates, secure[1])
            task_status.started(self._addresses)
        self.closed.set()

    async def end_watches(self) -> None:
        await self._hub.close()

    def _tls(self) -> tuple[ssl.SSLContext | None, Certificates | None]:
        settings = self._settings
        if not settings.secure_port:
            return None, None
        names = serving_names(self._store.names, settings.bind_address)
        certificates = prepare(settings.pki, names, time.time())
        own = certificates.certificate("server"), certificates.key("server")
        authorities = [certificates.authority]
        if settings.client_ca_file:
            authorities.append(settings.client_ca_file)
        return (
            server_context(
                settings.tls_cert_file or own[0], settings.tls_private_key_file or own[1], authorities
            ),
            certificates,
        )

    def _write_kubeconfig(self, certificates: Certificates, port: int) -> None:
        settings = self._settings
        url = server_url(settings.bind_address, port)
        authority = settings.tls_cert_file or certificates.authority
        write_kubeconfig(settings.kubeconfig, url, authority, certificates)


def refuse(status: int, message: str) -> Response:
    """What a connection answers to bytes that are no request."""
    failed = plain_failure(status, message)
    return Response(status, orjson.dumps(failed.document()), headers=failed.headers)
