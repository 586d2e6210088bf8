"""Builds the server from its settings, runs it, and stops it without losing a write.

The one place that knows every part; `run` shows the order. Start: open the store (journal, committer, actors,
controllers), create the namespaces, listen, create the other initial objects, report ready. Stop: /readyz fails first,
then (after --shutdown-delay-duration) no new connections, running requests end, the committer drains, the journal
closes. A start that fails removes what it created in the data folder.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from actors.access.authenticate import Authenticator, TokenMethod
from actors.access.authorize import Authorizer
from actors.access.modes import authorizer
from actors.access.reviews import Reviews
from actors.access.tokens import read_tokens
from actors.admission.chain import Admission
from actors.admission.plugin import Plugin
from actors.admission.roster import plugins
from actors.bootstrap.bootstrap import Bootstrap
from actors.bootstrap.objects import ServingAddress
from actors.certificates.addresses import reachable_addresses
from actors.clock import Clock, WallClock
from actors.controllers.roster import controllers
from actors.kinds.built_in import built_in
from actors.kinds.catalog import Catalog
from actors.kinds.declaration.definition import Definition
from actors.kinds.features import LIST_CHUNKING
from actors.kinds.registry import Registry
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
from gateway.data_folder import CreatedPaths
from gateway.describe.discovery import Discovery
from gateway.describe.openapi.handler import OpenApi
from gateway.handlers.dispatch import Dispatch
from gateway.handlers.paths import Paths
from gateway.handlers.pipeline import Pipeline
from gateway.handlers.watches import WatchOpener
from gateway.ops import meters
from gateway.ops.checks import CHECK_NAMES, Checks
from gateway.ops.health import Health
from gateway.ops.metrics import Metrics
from gateway.release import RELEASE, SERVED_VERSION
from gateway.requests.errors import plain_failure
from gateway.requests.observer import RequestObserver
from gateway.requests.request import Response
from gateway.secure_port import prepare_tls, write_admin_kubeconfig
from gateway.settings import Addresses, Settings, host_and_port
from gateway.watch.hub import Hub
from gateway.wire.json import dump_line
from gateway.wire.protobuf.messages import Messages
from journal.errors import AlreadyOpen
from journal.log import Journal

# How long running requests may take to end after the listeners are closed.
GRACE = 60.0

Announce = Callable[[Addresses], None]


@dataclass(frozen=True, slots=True)
class Extensions:
    """What a program that embeds the server adds to what the settings ask for."""

    token_methods: Sequence[TokenMethod] = ()  # asked about bearer tokens that the token file does not list
    authorizers: Sequence[Authorizer] = ()  # asked before those of --authorization-mode
    admission_plugins: Sequence[Plugin] = ()  # called after those of the server
    observer: RequestObserver | None = None


NO_EXTENSIONS = Extensions()


@dataclass(frozen=True, slots=True)
class Store:
    """Everything below HTTP."""

    names: Names
    registry: Registry
    journal: Journal
    feed: Feed
    committer: Committer
    directory: Directory
    horizon: Horizon
    reads: Reads
    stamps: Stamps
    supervisor: Supervisor


async def run(
    settings: Settings,
    announce: Announce,
    stop: trio.Event,
    clock: Clock | None = None,
    extensions: Extensions = NO_EXTENSIONS,
) -> None:
    """Serve until `stop` is set. `announce` gets the addresses when the server is ready."""
    created = CreatedPaths(settings)
    check_names = CHECK_NAMES[settings.dialect]
    health = Health(trio.current_time, settings.livez_grace_period, check_names.start)
    opened = _open_store(settings, clock or WallClock(), created, extensions)
    async with opened as store, trio.open_nursery() as nursery:
        bootstrap = Bootstrap(
            store.names, store.registry.current, store.journal, store.directory, store.stamps
        )
        await bootstrap.create_namespaces()
        server = _ApiServer(settings, store, health, nursery, extensions)
        addresses = await nursery.start(server.serve)
        await bootstrap.create_objects(settings.service_ranges, _serving_address(settings, addresses))
        health.finish_start()
        created.keep()
        announce(addresses)
        await stop.wait()
        health.begin_shutdown()
        await trio.sleep(settings.shutdown_delay_duration)
        await server.stop()
        nursery.cancel_scope.cancel()


def _serving_address(settings: Settings, addresses: Addresses) -> ServingAddress:
    """For the Service of this server; a server without a secure port is reached at its plain one."""
    return ServingAddress(addresses.hosts[0], settings.secure_port or settings.insecure_port)


@asynccontextmanager
async def _open_store(
    settings: Settings, clock: Clock, created: CreatedPaths, extensions: Extensions
) -> AsyncIterator[Store]:
    """Open the journal and run its actors and controllers; on leaving, drain the committer and close the journal."""
    journal = _open_journal(settings, created)
    try:
        async with trio.open_nursery() as nursery:
            store = _build_store(settings, journal, clock, nursery, extensions)
            try:
                yield store
            finally:
                with trio.CancelScope(shield=True):
                    await store.committer.drained()
                nursery.cancel_scope.cancel()
    finally:
        created.remove()
        journal.close()


def _open_journal(settings: Settings, created: CreatedPaths) -> Journal:
    try:
        journal = Journal.open(settings.journal, dialect=settings.dialect)
    except AlreadyOpen:
        raise  # another server uses the folder, and may have created it a moment ago
    except BaseException:
        created.remove()
        raise
    if journal.head:
        created.keep()  # somebody wrote to it: this start did not create it
    return journal


def _build_store(
    settings: Settings, journal: Journal, clock: Clock, nursery: trio.Nursery, extensions: Extensions
) -> Store:
    names = NAMES[settings.dialect]
    catalog = built_in(names, settings.features, settings.enablement)
    journal.register_types(catalog.stored_types())
    feed, supervisor, stamps = Feed(journal.head, journal), Supervisor(), Stamps(clock)
    committer = Committer(journal, feed)
    registry = Registry(catalog, committer.register_types)
    available = (*plugins(names, journal, feed, settings.service_ranges), *extensions.admission_plugins)
    admission = Admission([one for one in available if one.name not in settings.disabled_plugins])
    directory = Directory(registry, journal, committer, admission, supervisor, nursery)
    horizon = Horizon(journal, clock, round(settings.watch_history * 1_000_000))
    store = Store(
        names,
        registry,
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
    nursery.start_soon(supervisor.keep, "feed", feed.run)
    nursery.start_soon(supervisor.keep, "housekeeping", housekeeping.run)
    for loop in controllers(registry, journal, feed, directory, stamps, names):
        nursery.start_soon(supervisor.keep, loop.name, loop.run)
    return store


class _ApiServer:
    """The API over HTTP for one store: request pipeline, listeners, health checks and metrics."""

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
        self._hub = Hub(store.journal, store.feed, store.horizon.floor, nursery, self._serves)
        self._addresses = Addresses(None, None)
        self._stop, self._stopped = trio.Event(), trio.Event()
        self._metrics = Metrics(RELEASE, lambda group, plural: store.registry.current.serves(group, plural))
        names = CHECK_NAMES[settings.dialect]
        self._checks = Checks(names, store.committer, store.journal, store.supervisor)
        self._checks.add_to(health)
        pipeline = self._pipeline(health)
        self._server = Server(pipeline.handle, refuse, Limits(), extensions.observer)
        meters.meter_server(self._metrics, self._server.statistics)
        meters.meter_committer(self._metrics, store.committer.statistics)
        meters.meter_journal(self._metrics, store.journal.statistics)
        meters.meter_mailboxes(self._metrics, store.directory.statistics)
        store.registry.follow(self._kinds_changed)
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
            store.registry,
            store.journal,
            store.directory,
            store.reads,
            store.stamps,
            authorize,
            Reviews(authenticator, authorize),
            WatchOpener(store.names, self._hub, store.reads, store.journal),
            {"componentstatuses": self._checks.component_statuses},
            chunking=LIST_CHUNKING in settings.features,
        )
        discovery = Discovery(store.registry, dispatch.verbs)
        openapi = OpenApi(store.registry, store.names, dispatch.verbs, SERVED_VERSION)
        paths = Paths(health, discovery, openapi, self._metrics.scrape, self._advertised)
        messages = Messages(store.registry, store.names)
        return Pipeline(store.names, authenticator, authorize, dispatch, paths, self._metrics, messages)

    def _serves(self, definition: Definition) -> bool:
        return self._store.registry.current.holds(definition)

    def _kinds_changed(self, previous: Catalog, following: Catalog) -> None:
        """End the watches of definitions that went or were replaced, and forget the metrics of what went."""
        for type_name in following.changed_since(previous):
            before = previous.stored_type(type_name)
            for definition in before.served if before is not None else ():
                if not following.holds(definition):
                    self._hub.end(definition, type_name)
                if not following.serves(definition.group, definition.plural):
                    self._metrics.forget(definition.group, definition.plural)

    def _advertised(self) -> str:
        """The address in /api by which clients are to reach this server."""
        listening = self._addresses.secure or self._addresses.insecure
        return host_and_port(self._addresses.hosts[0], listening[1]) if listening else ""

    async def serve(self, task_status: trio.TaskStatus[Addresses] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen until `stop`; returns when every request has ended."""
        settings = self._settings
        tls = prepare_tls(settings, self._store.names)
        async with trio.open_nursery() as nursery:
            secure, insecure = await nursery.start(
                lambda task_status: self._server.serve(
                    secure=settings.secure,
                    insecure=settings.insecure,
                    tls=None if tls is None else tls.context,
                    stop=self._stop,
                    grace=GRACE,
                    task_status=task_status,
                )
            )
            hosts = reachable_addresses(secure[0] if secure else insecure[0])
            self._addresses = Addresses(secure, insecure, hosts)
            if tls is not None:
                write_admin_kubeconfig(settings, tls, secure[1])
            task_status.started(self._addresses)
        self._stopped.set()

    async def stop(self) -> None:
        """Close the listeners, end the watches, and wait for running requests."""
        self._stop.set()
        await self._hub.close()
        await self._stopped.wait()


def refuse(status: int, message: str) -> Response:
    """The response to bytes that are no HTTP request."""
    failed = plain_failure(status, message)
    return Response(status, dump_line(failed.document()), headers=failed.headers)
