"""The API over HTTP for one store: request pipeline, listeners, health checks and metrics.

`run` builds one, starts `serve` and awaits `stop`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from rewound.actors.access.accounts.keys import is_discoverable
from rewound.actors.access.authorize import Attributes, Authorizer
from rewound.actors.access.impersonation import WantedIdentity, impersonate
from rewound.actors.aggregation.api_services import ApiService
from rewound.actors.certificates.names import reachable_addresses
from rewound.actors.flowcontrol.in_flight import InFlightLimits
from rewound.actors.flowcontrol.leases import Holder
from rewound.actors.flowcontrol.priority_and_fairness import PriorityAndFairness
from rewound.actors.identity import User
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition, Subresource
from rewound.actors.runtime.background_import import OnDemand
from rewound.actors.runtime.clock import nanoseconds
from rewound.actors.versions.features import (
    CBOR,
    CONSTRAINED_IMPERSONATION,
    LENDING,
    LIST_CHUNKING,
)
from rewound.gateway.connections.config import server_config
from rewound.gateway.connections.limits import ConnectionLease, Limits, affordable_connections
from rewound.gateway.connections.listen import Listener
from rewound.gateway.connections.server import Server
from rewound.gateway.connections.server_state import AnyServer, MakeServer
from rewound.gateway.describe.discovery import Discovery
from rewound.gateway.describe.openapi.handler import OpenApi
from rewound.gateway.exchange import ExchangeObserver, both
from rewound.gateway.handlers.computed_kinds import FewObjects, Source
from rewound.gateway.handlers.dispatch import Dispatch
from rewound.gateway.handlers.lists import ListHandler
from rewound.gateway.handlers.paths import Paths, Serve, level_rows
from rewound.gateway.handlers.watches import WatchOpener
from rewound.gateway.message import Response
from rewound.gateway.ops.checks import CHECK_NAMES, FLOW_CONTROL_TASK, Checks
from rewound.gateway.ops.health import Health
from rewound.gateway.ops.loop_watchdog import LoopWatchdog
from rewound.gateway.ops.meters import meter_all, meter_audit, meter_certificate, meter_files
from rewound.gateway.ops.metrics import Metrics
from rewound.gateway.ops.operations import Operations
from rewound.gateway.ops.request_series import RequestSeries, ServedRoutes
from rewound.gateway.pipeline.aggregated import aggregated_at
from rewound.gateway.pipeline.context import READING, RequestContext
from rewound.gateway.pipeline.context import Limits as RequestLimits
from rewound.gateway.pipeline.errors import Failure, plain_failure
from rewound.gateway.pipeline.flow_control import flow_fields
from rewound.gateway.pipeline.pipeline import Pipeline, needs_newest
from rewound.gateway.pipeline.render import Encoders
from rewound.gateway.pipeline.route import is_forwarded_path
from rewound.gateway.pipeline.services import CatchUp, FaultHook, InjectFault, PipelineServices, Resources
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.server_config import Address, host_and_port
from rewound.gateway.settings.settings import Addresses, Settings
from rewound.gateway.store import Store
from rewound.gateway.watch.hub import Hub
from rewound.gateway.watch.rights import WatchRights
from rewound.gateway.wire.cbor.writer import CborEncoder
from rewound.gateway.wire.json import dump_line
from rewound.gateway.wire.protobuf.objects import ProtobufEncoder
from rewound.rewind.handler import RewindHandler
from rewound.rewind.past_reads import PastReads
from rewound.server.controls import Controls
from rewound.server.extensions import (
    AddControls,
    Controlled,
    Extensions,
    InstallControls,
    InstalledControls,
    Offered,
)
from rewound.server.secure_port import RenewedTls, Tls, prepare_tls, write_admin_kubeconfig
from rewound.server.tracing import build_tracing

if TYPE_CHECKING:
    from rewound.actors.store.etcd.etcd_node import Node
    from rewound.cluster.standby.feed import JournalFeed
    from rewound.gateway.aggregation.handler import AggregationHandler
    from rewound.gateway.ops.tracing import Tracing
    from rewound.gateway.proxy.connects import Connects
    from rewound.rewind.page.handler import JournalPage
    from rewound.rewind.page.refused import RefusedWrites


TRACES_SECONDS: Final = 5.0  # to send the last ones at the end


class ApiServer:
    def __init__(
        self,
        settings: Settings,
        store: Store,
        nursery: trio.Nursery,
        extensions: Extensions,
        predecessor: ApiServer | None = None,
    ) -> None:
        """With a `predecessor`, take over its listeners and connections: they pass their requests to this one."""
        self._settings = settings
        self._store = store
        self._nursery = nursery
        self._addresses: Addresses = predecessor._addresses if predecessor else Addresses(None, None)
        self._stop, self._stopped = trio.Event(), trio.Event()
        self._refused: RefusedWrites | None = None  # made for the first one
        self._files = list(store.access.files)
        self._connects = OnDemand("rewound.gateway.proxy.connects", self._make_connects)
        self._aggregation = OnDemand("rewound.gateway.aggregation.handler", self._make_aggregation)
        self._journal_feed = OnDemand("rewound.cluster.standby.feed", self._make_journal_feed)
        names = CHECK_NAMES[store.rules.health]
        self.health = Health(trio.current_time, settings.livez_grace_period, names.format)
        shared = self._shared = extensions.shared
        ask_writer = None if shared is None else shared.ask_condition
        fairness = settings.enable_priority_and_fairness
        self._checks = Checks(names, store, fairness=fairness, ask_writer=ask_writer)
        self._measures_loop = extensions.random is None
        self._checks.add_to(self.health)
        routes = ServedRoutes(store.registry)
        self._operations = Operations(
            self.health,
            Metrics(
                RequestSeries(routes.knows, routes.removed_release),
                None if shared is None else shared.collect,
                of_writer=ask_writer is None,
            ),
            self._make_request_limits(extensions.holder),
            LoopWatchdog(),
        )
        if shared is not None:
            levels = partial(level_rows, self._operations.limits)
            shared.offer(Offered(self._operations.metrics, levels, self._checks.condition))
        self.hub = Hub(store.journal, store.feed, store.horizon.floor, nursery, self._serves, store.memory)
        access = store.access
        rights = WatchRights(
            self.hub,
            access.authenticator,
            access.authorizer,
            access.rbac,
            nanoseconds(store.clock),
            self._impersonate_again,
        )
        nursery.start_soon(store.supervisor.keep, "watch rights", rights.run)
        nursery.start_soon(store.supervisor.keep, FLOW_CONTROL_TASK, self._operations.limits.run)
        nursery.start_soon(store.supervisor.keep, "free memory", store.memory.trim_after_work)
        self._tracing: Tracing | None = (
            build_tracing(settings.tracing.tracing_config_file, store.names, os.environ)
            if predecessor is None
            else predecessor._tracing
        )
        pipeline = self._make_pipeline(extensions)
        self._config = server_config(settings)
        if extensions.binds is not None:
            self._config.listen_on(extensions.binds.secure, extensions.binds.plain)
        limits = Limits.configured(
            self._config,
            settings.max_connections or affordable_connections(store.memory.process.limit),
            self._forwards,
            extensions.accept_share,
            _connection_lease(extensions.holder),
        )
        observer = both(self._audit_log(nursery), extensions.observer)
        if predecessor is None:
            make = extensions.make_server or _server_of(settings)
            self._server: AnyServer = make(pipeline.handle, refuse, limits, observer, store.memory)
        else:
            self._server = predecessor._server
            self._server.replace_handler(pipeline.handle)
        meter_all(self._operations, store, self.hub, self._server.statistics)
        meter_files(self._operations.metrics, self._files)
        self.metrics.counter(
            "rewound_watches_without_rights_total",
            "Watches that were ended because their clients had lost their rights.",
            lambda: rights.ended,
        )
        self.metrics.gauge(
            "rewound_journal_followers",
            "Standbys and backups that follow the journal.",
            lambda: 0 if (feed := self._journal_feed.made) is None else feed.followers(),
        )
        store.registry.follow(self._kinds_changed)

    @property
    def metrics(self) -> Metrics:
        return self._operations.metrics

    async def _impersonate_again(
        self, caller: User, wanted: WantedIdentity, authorizer: Authorizer, request: Attributes
    ) -> tuple[User, str]:
        """As a request that impersonates does it, for one that is still open."""
        names, rules = self._store.names, self._store.rules
        constrained = CONSTRAINED_IMPERSONATION in self._store.release.features
        return await impersonate(caller, wanted, authorizer, names, rules, request if constrained else None)

    def _make_pipeline(self, extensions: Extensions) -> Pipeline:
        store, settings, operations = self._store, self._settings, self._operations
        encoders = Encoders(store.names, store.write_contexts.now, store.converter)
        lists = ListHandler(store, encoders, chunking=LIST_CHUNKING in store.release.features)
        past_reads = PastReads(store, lists)
        controls = self._install_controls(extensions.install_controls, past_reads)
        rewind = RewindHandler(store, past_reads, encoders, enabled=settings.serves_history)
        computed: dict[str, Source] = {"componentstatuses": FewObjects(self._checks.component_statuses)}
        if (simulated := store.simulated_metrics) is not None:
            computed |= simulated.sources
        watches = WatchOpener(
            store,
            self.hub,
            encoders.converted,
            opened=None if controls is None else controls.watch_opened,
        )
        dispatch = Dispatch(store, watches, lists, rewind, computed, self._connect)
        discovery = Discovery(
            store.registry,
            store.api_services,
            store.aggregated,
            dispatch.verbs,
            self._advertised,
            features=settings.features,
            serves_history=settings.serves_history,
        )
        openapi = OpenApi(
            store.registry,
            store.names,
            dispatch.verbs,
            store.aggregated.descriptions,
            kubernetes=store.release.patch_release,
            describes_issuer=is_discoverable(store.access.accounts.options.issuer),
            describes_history=settings.serves_history,
            cbor=CBOR in store.release.features,
        )
        paths = Paths(
            operations,
            store.access.accounts,
            discovery,
            openapi,
            store.release,
            self._control_paths(extensions.add_controls, controls),
            self._journal_page(extensions),
            self._serve_journal_feed,
            None if self._shared is None else self._shared.collect_levels,
            public_health=settings.public_health,
        )
        protobuf = ProtobufEncoder(store.registry, store.names)
        services = PipelineServices(
            names=store.names,
            rules=store.rules,
            constrained_impersonation=CONSTRAINED_IMPERSONATION in store.release.features,
            now=nanoseconds(store.clock),
            registry=store.registry,
            authenticator=store.access.authenticator,
            authorizer=store.access.authorizer,
            limits=operations.limits,
            api_services=store.api_services,
            serve_api_service=self._serve_api_service,
            resources=_read_only(dispatch, extensions.leader) if extensions.leader else dispatch,
            paths=paths,
            metrics=operations.metrics,
            slow_requests=operations.watchdog,
            protobuf=protobuf,
            cbor=CborEncoder(protobuf) if CBOR in store.release.features else None,
            memory=store.memory,
            note_refused=None if extensions.replayed or not settings.serves_page else self._note_refused,
            catch_up=extensions.catch_up if store.node is None else _with_nodes(store.node),
            tracing=self._tracing,
            faults=FaultHook(stopping=self._stop),
        )
        self._faults = services.faults
        if controls is not None:
            controls.start()
        return Pipeline(services)

    def _install_controls(
        self, install: InstallControls | None, past_reads: PastReads
    ) -> InstalledControls | None:
        """Install the test controls, if the settings ask for them."""
        settings, store = self._settings, self._store
        if settings.faults is None and not settings.enable_test_controls:
            return None
        if install is None:
            raise SettingsError(
                "--enable-test-controls and --faults",
                "this program runs the server without them; pass it WITH_CONTROLS of rewound.testing.controlled",
            )
        metrics = self._operations.metrics
        return install(Controlled(settings, store, self.hub, past_reads, metrics, self._inject_faults))

    def _inject_faults(self, inject: InjectFault | None) -> None:
        self._faults.inject = inject

    def _audit_log(self, nursery: trio.Nursery) -> ExchangeObserver | None:
        """Create the audit log. Raises SettingsError if its policy or backend cannot be used."""
        if not self._settings.audit.given:
            return None
        from rewound.gateway.audit.build import build_audit

        calls = None if self._shared is None else self._shared.audit
        built = build_audit(self._settings.audit, self._store.names, self._store.clock, calls)
        if built is None:
            return None
        audit, files = built
        nursery.start_soon(audit.run)
        for one in files:
            nursery.start_soon(one.run)
        self._files += files
        meter_audit(self._operations.metrics, audit.statistics)
        return audit

    def _control_paths(self, more: AddControls | None, installed: InstalledControls | None) -> Serve | None:
        """The handler of the paths below /debug/rewound/; None if there are none."""
        add = [installed.add] if installed is not None and self._settings.enable_test_controls else []
        if more is not None:
            add.append(more)
        if not add:
            return None
        controls = Controls()
        for one in add:
            one(controls.add)
        return controls

    async def _connect(
        self, context: RequestContext, definition: Definition, subresource: Subresource
    ) -> Response:
        """Serve the subresources that connect to a pod, a service or a kubelet."""
        return await (await self._connects.get()).serve(context, definition, subresource)

    async def _make_connects(self) -> Connects:
        from rewound.gateway.proxy.connects import Connects

        store, proxy = self._store, self._settings.proxy
        return Connects(store.registry, store.reads, store.directory, store.write_contexts, proxy, self._stop)

    def _forwards(self, path: str) -> bool:
        """Whether another server handles the request: then it may switch protocols, and its body has no limit."""
        remote = self._store.api_services.remote
        return is_forwarded_path(path) or (bool(remote) and aggregated_at(remote, path) is not None)

    async def _serve_api_service(self, context: RequestContext, one: ApiService) -> Response:
        """Serve a request by forwarding it to an aggregated server."""
        return await (await self._aggregation.get()).serve(context, one)

    async def _make_aggregation(self) -> AggregationHandler:
        from rewound.gateway.aggregation.handler import AggregationHandler

        servers = await self._store.aggregated.get()
        return AggregationHandler(servers, self._settings.request_headers.headers, self._stop)

    def _note_refused(self, context: RequestContext, failure: Failure) -> None:
        """Keep a write that this server refused, for the page."""
        if self._refused is None:
            from rewound.rewind.page.refused import RefusedWrites

            now = nanoseconds(self._store.clock)
            self._refused = RefusedWrites(self._settings.data_dir, now, self._nursery.start_soon)
        self._refused.add(context, failure)

    async def _refused_written(self) -> None:
        if self._refused is not None:
            await self._refused.written()

    def _journal_page(self, extensions: Extensions) -> Serve | None:
        """The page about the journal; None if it or the timeline, on which it depends, is off."""
        if not self._settings.serves_page:
            return None

        async def make() -> JournalPage:
            from rewound.rewind.page.about import About
            from rewound.rewind.page.handler import JournalPage

            names = self._store.names
            about = About(
                self._settings.data_dir,
                self._url(),
                names.dialect,
                self._store.release.patch_release,
                extensions.replayed,
            )
            replays = extensions.add_controls is not None
            start = self._nursery.start_soon
            return JournalPage(self._store, self._stop, start, about, self._refused_written, replays=replays)

        page = OnDemand("rewound.rewind.page.handler", make)

        async def serve(context: RequestContext) -> Response:
            return await (await page.get())(context)

        return serve

    async def _serve_journal_feed(self, context: RequestContext) -> Response:
        """Serve the stream that standbys and backups follow."""
        return await (await self._journal_feed.get())(context)

    async def _make_journal_feed(self) -> JournalFeed:
        from rewound.cluster.standby.feed import JournalFeed

        return JournalFeed(self._store, self._stop)

    def _make_request_limits(self, holder: Holder | None) -> RequestLimits:
        store, settings = self._store, self._settings
        if not settings.enable_priority_and_fairness:
            reading, changing = settings.max_requests_inflight, settings.max_mutating_requests_inflight
            return InFlightLimits(reading, changing, holder)
        mark = flow_fields(store.names)
        return PriorityAndFairness(
            store.names,
            store.registry,
            store.journal,
            store.feed,
            settings.total_inflight,
            mark,
            holder,
            borrows=LENDING in store.release.features,
        )

    def _serves(self, definition: Definition) -> bool:
        return self._store.registry.current.successor(definition) is not None

    def _kinds_changed(self, previous: Catalog, following: Catalog) -> None:
        """End the watches of definitions that were removed or replaced, and drop the metrics of removed ones.

        Watches of a custom kind go on when its schema changes.
        """
        for type_name in following.changed_since(previous):
            before = previous.stored_type(type_name)
            for definition in before.served if before is not None else ():
                if following.successor(definition) is None:
                    self.hub.end(definition, type_name)
                if not following.serves(definition.group, definition.plural):
                    self._operations.metrics.requests.forget(definition.group, definition.plural)

    def _advertised(self) -> str:
        """The address of this server in /api."""
        listening = self._addresses.secure or self._addresses.insecure
        return host_and_port(self._addresses.hosts[0], listening[1]) if listening else ""

    def _url(self) -> str:
        scheme = "https" if self._addresses.secure else "http"
        return f"{scheme}://{self._advertised()}" if self._advertised() else ""

    async def serve(self, task_status: trio.TaskStatus[Addresses] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen until `stop`; returns when every request has ended."""
        tls = prepare_tls(self._settings, self._store.names, self._config)
        async with trio.open_nursery() as background:
            async with trio.open_nursery() as nursery:
                listeners: list[Listener] = await nursery.start(
                    lambda task_status: self._server.serve(
                        self._config,
                        tls=None if tls is None else tls.context,
                        stop=self._stop,
                        pools=None if tls is None else tls.pools,
                        task_status=task_status,
                    )
                )
                self._addresses = listening_addresses(self._settings, listeners, self._server.quic_address)
                if tls is not None and self._addresses.secure is not None:
                    write_admin_kubeconfig(self._settings, tls, self._addresses.secure[1])
                if tls is not None:
                    renewed = RenewedTls(
                        self._settings, self._store.names, self._config, tls, self._replace_tls
                    )
                    meter_certificate(self.metrics, renewed.expires)
                    if renewed.files is not None:
                        self._files.append(renewed.files)
                    background.start_soon(renewed.run)
                task_status.started(self._addresses)
            background.cancel_scope.cancel()
        self._stopped.set()

    def _replace_tls(self, tls: Tls) -> None:
        """Serve new connections with other certificates."""
        self._server.replace_tls(tls.context, tls.pools)
        if self._addresses.secure is not None:
            write_admin_kubeconfig(self._settings, tls, self._addresses.secure[1])

    @contextmanager
    def watch_loop(self) -> Iterator[None]:
        """Start to measure how long tasks hold the event loop. Not earlier: during a start no request waits.

        A server that must not depend on how long work takes (`Extensions.seed`) does not measure it.
        """
        if not self._measures_loop:
            yield
            return
        watchdog = self._operations.watchdog
        watchdog.begin()
        trio.lowlevel.add_instrument(watchdog)
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(watchdog)

    async def serve_until(self, stop: trio.Event) -> None:
        """Serve until `stop` is set: then /readyz fails first, and after a delay requests end and listeners close."""
        with self.watch_loop():
            await stop.wait()
        self.health.begin_shutdown()
        await trio.sleep(self._settings.shutdown_delay_duration)
        await self.stop()

    async def stop(self) -> None:
        """Close the listeners, end the watches, and wait for running requests."""
        self._stop.set()
        await self.hub.close()
        await self._stopped.wait()
        if self._tracing is not None:
            with trio.move_on_after(TRACES_SECONDS):
                await trio.to_thread.run_sync(self._tracing.stop, abandon_on_cancel=True)


def _read_only(resources: Dispatch, leader: str) -> Resources:
    from rewound.cluster.standby.read_only import ReadOnlyResources

    return ReadOnlyResources(resources, leader)


def listening_addresses(
    settings: Settings, listeners: Sequence[Listener], quic: Address | None = None
) -> Addresses:
    """The addresses at which clients reach a server with these listeners."""
    addressed = [(one, one.address) for one in listeners if one.address is not None]
    secure = next((address for one, address in addressed if one.secure), None)
    insecure = next((address for one, address in addressed if not one.secure), None)
    main = secure or insecure
    if not listeners:  # another program listens, where the flags say
        main = settings.secure or settings.insecure
    reached = () if main is None else reachable_addresses(main[0])
    if main is not None and settings.advertise_address:
        reached = (settings.advertise_address, *reached)
    return Addresses(
        secure,
        insecure,
        tuple(dict.fromkeys(reached)),
        tuple(one.url for one in listeners if one.address is None or one.address not in (secure, insecure)),
        quic,
    )


def _connection_lease(holder: Holder | None) -> ConnectionLease | None:
    """Limits connections: file descriptors are those of this worker, memory is that of all workers."""
    return None if holder is None else ConnectionLease(holder, affordable_connections())


def _with_nodes(node: Node) -> CatchUp:
    """If a request needs it, wait until this node has every write that other nodes have acknowledged."""

    def catch_up(context: RequestContext) -> Awaitable[None] | None:
        if not needs_newest(context):
            return None
        return node.freshness.wait(to_write=context.route.verb not in READING)

    return catch_up


def _server_of(settings: Settings) -> MakeServer:
    if settings.transport != "asgi":
        return Server
    from rewound.gateway.connections.asgi.worker import HypercornServer

    return HypercornServer


def refuse(status: int, message: str) -> Response:
    """The response to bytes that are no HTTP request."""
    failed = plain_failure(status, message)
    return Response(status, dump_line(failed.document()), headers=failed.headers)
