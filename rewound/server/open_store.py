"""The store: everything below HTTP, opened for one data folder.

The journal, its committer and feed, an actor per resource type, admission, controllers and housekeeping. `run`
opens it before the server listens, and closes it when every request has ended.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import trio

from rewound.actors.admission.built_in import plugins
from rewound.actors.admission.calls import AdmissionCalls
from rewound.actors.admission.chain import Admission
from rewound.actors.admission.context import PluginContext
from rewound.actors.admission.plugin import Plugin
from rewound.actors.admission.plugins.quota.accounts import QuotaAccounts
from rewound.actors.admission.webhooks.clients import WebhookClients
from rewound.actors.admission.webhooks.credentials import WebhookCredentials
from rewound.actors.admission.webhooks.services import Services
from rewound.actors.aggregation.api_services import ApiServices
from rewound.actors.aggregation.context import AggregationContext
from rewound.actors.bootstrap.bootstrap import create_namespace
from rewound.actors.controllers.built_in import controllers, description_controllers, token_use
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.publication import Publication
from rewound.actors.controllers.quota import QuotaCharges
from rewound.actors.controllers.service_addresses import ServiceAddresses
from rewound.actors.conversion.converter import Converter, NoClients
from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.registry import Registry
from rewound.actors.names import NAMES
from rewound.actors.resource.decide import LONGEST_STEP, ActorContext
from rewound.actors.resource.directory import Directory
from rewound.actors.resource.object_size import ObjectSizes
from rewound.actors.resource.remote import RemoteDirectory, Send
from rewound.actors.rewind.rights import SECRETS
from rewound.actors.runtime.clock import Clock, WallClock
from rewound.actors.runtime.large_work import LargeWork
from rewound.actors.runtime.supervisor import Supervisor
from rewound.actors.runtime.write_context import LeaderContexts, WriteContexts
from rewound.actors.store.committer import Commits, Committer, UnmeasuredDisk
from rewound.actors.store.feed import Feed
from rewound.actors.store.housekeeping import Housekeeping
from rewound.actors.store.migration import migrate, needs_migration
from rewound.actors.store.reads import Horizon, Reads
from rewound.actors.versions.features import DYNAMIC_ALLOCATION, SERVICE_CIDRS, STRUCTURED_DEVICES
from rewound.gateway.aggregation.on_demand import ServersOnDemand
from rewound.gateway.aggregation.trust import published_trust
from rewound.gateway.memory.budget import MemoryBudget
from rewound.gateway.memory.process import default_limit
from rewound.gateway.ops.checks import FEED_TASK, PLUGIN_TASK
from rewound.gateway.outgoing.webhook import HttpsCalls
from rewound.gateway.settings.checks import SettingsError, check_parsed
from rewound.gateway.settings.settings import CONFIGURATION_FLAG, Settings
from rewound.gateway.store import Store, Task
from rewound.gateway.wire.protobuf.objects import ProtobufEncoder
from rewound.journal.errors import (
    AlreadyOpen,
    DamagedMetaPage,
    DamagedTail,
    IncompleteFolder,
    LostCommits,
    NewerLayout,
    WrongDialect,
    WrongIdentity,
)
from rewound.journal.log import Journal
from rewound.server.access import build_access
from rewound.server.data_folder import CreatedPaths
from rewound.server.extensions import Extensions
from rewound.server.secure_port import prepare_certificates, signing_authorities

if TYPE_CHECKING:
    from rewound.actors.store.etcd.etcd_node import Membership, Node
    from rewound.cluster.membership import Joined

# More writes than the writer process can have decided and not committed. So many offsets after a change of a kind, a
# process that does not see the writer's queue knows that new objects have the form of the new schema.
IN_FLIGHT = 1 << 16

logger = logging.getLogger(__name__)

_NOT_CREATED_HERE = (
    AlreadyOpen,
    DamagedMetaPage,
    DamagedTail,
    IncompleteFolder,
    LostCommits,
    NewerLayout,
    WrongDialect,
    WrongIdentity,
)


@asynccontextmanager
async def open_store(
    settings: Settings, clock: Clock, created: CreatedPaths, extensions: Extensions
) -> AsyncIterator[Store]:
    """Open the journal and run its actors and controllers; on leaving, drain the committer and close the journal."""
    if not settings.cluster.journal:
        async with _journal_store(settings, clock, created, extensions, None) as store:
            yield store
        return
    from rewound.cluster.membership import join

    certificates = partial(prepare_certificates, settings, NAMES[settings.dialect])
    async with (
        join(settings, extensions.etcd, certificates) as joined,
        _journal_store(settings, clock, created, extensions, joined) as store,
    ):
        yield store


@asynccontextmanager
async def _journal_store(
    settings: Settings, clock: Clock, created: CreatedPaths, extensions: Extensions, joined: Joined | None
) -> AsyncIterator[Store]:
    """The store of the journal in the data folder. `joined` is the cluster if etcd orders the journal."""
    if joined is not None:
        settings = replace(settings, kubernetes_version=joined.kubernetes)
    with ExitStack() as closing:
        durable = not settings.unsafe_no_fsync if joined is None else not joined.unsynced.is_possible
        if joined is not None and not durable:
            joined.unsynced.begin()
            closing.callback(joined.unsynced.end)
        journal = _open_journal(settings, created, joined, durable=durable)
        closing.callback(journal.close)
        closing.callback(created.remove)
        if joined is None:
            await _migrate(settings, journal, clock, extensions)
        else:
            journal.set_version(settings.release.record)  # a copy of objects that etcd has in this form
        async with trio.open_nursery() as nursery:
            member = None if joined is None else joined.member
            store = _build_store(
                settings, journal, clock, memory_budget(settings), nursery, extensions, member=member
            )
            closing.callback(store.aggregated.close)  # when no task uses a connection any more
            if store.node is not None:
                await store.node.join()
            try:
                yield store
            finally:
                with trio.CancelScope(shield=True):
                    await store.committer.drained()
                nursery.cancel_scope.cancel()


def _open_journal(
    settings: Settings, created: CreatedPaths, joined: Joined | None, *, durable: bool
) -> Journal:
    cluster_id = None if joined is None else joined.cluster_id
    try:
        journal = Journal.open(
            settings.journal,
            dialect=settings.dialect,
            kubernetes=settings.release.record,
            cluster_id=cluster_id,
            durable=durable,
        )
    except _NOT_CREATED_HERE:
        raise  # another process uses the folder or wrote to it, and may have created it a moment ago
    except BaseException:
        created.remove()
        raise
    if journal.head:
        created.keep()  # another process wrote to it, so this start did not create it
    try:
        with journal.read() as view:
            view.check_type_names()
    except BaseException:
        journal.close()
        raise
    return journal


async def _migrate(settings: Settings, journal: Journal, clock: Clock, extensions: Extensions) -> None:
    """Bring the objects of the folder into the form of the version that the server is."""
    if needs_migration(journal, settings.release):
        await migrate(journal, settings.release, _catalog(settings, extensions), clock.now())


def _catalog(settings: Settings, extensions: Extensions) -> Catalog:
    names = NAMES[settings.dialect]
    return extensions.catalog or built_in(names, settings.release, settings.enablement, settings.rules)


def read_only_store(
    settings: Settings,
    journal: Journal,
    clock: Clock,
    memory: MemoryBudget,
    nursery: trio.Nursery,
    extensions: Extensions,
    *,
    calls_out: bool = False,
) -> Store:
    """The store of a journal that no request writes to: without controllers, housekeeping and tasks of plugins.

    `calls_out`: call conversion webhooks and aggregated servers.
    """
    return _build_store(
        settings, journal, clock, memory, nursery, extensions, writes=False, calls_out=calls_out
    )


def worker_store(
    settings: Settings,
    journal: Journal,
    clock: Clock,
    memory: MemoryBudget,
    nursery: trio.Nursery,
    extensions: Extensions,
    send: Send,
) -> Store:
    """The store of a process that reads another process's journal, and sends it commands with `send`."""
    return _build_store(settings, journal, clock, memory, nursery, extensions, writes=False, send=send)


def memory_budget(settings: Settings) -> MemoryBudget:
    """The budget of one server; several stores may share it."""
    return MemoryBudget.of_limit(settings.memory_limit or default_limit(settings.workers))


def _build_store(
    settings: Settings,
    journal: Journal,
    clock: Clock,
    memory: MemoryBudget,
    nursery: trio.Nursery,
    extensions: Extensions,
    *,
    writes: bool = True,
    calls_out: bool = True,
    send: Send | None = None,
    member: Membership | None = None,
) -> Store:
    """Build every service and start its task; those that write only if `writes`.

    With `send`, another process writes the journal and gets all commands. With `member`, etcd orders the journal.
    """
    names, rules = NAMES[settings.dialect], settings.rules
    journal.unreadable.report_to(partial(logger.warning, "%s; everything else is served"))
    catalog = _catalog(settings, extensions)
    if send is None:
        journal.register_types(catalog.stored_types())
    feed, supervisor = Feed(journal.head, journal), Supervisor()
    write_contexts = WriteContexts(clock, extensions.random)
    repeatable = extensions.random is not None
    node: Node | None = None
    if member is not None:
        from rewound.cluster.membership import make_node

        node = make_node(settings, member, journal, feed, supervisor, names, clock)
    committer: Commits = (
        Committer(journal, feed, UnmeasuredDisk() if repeatable else None) if node is None else node.committer
    )
    registry = Registry(catalog, committer.register_types)
    if node is not None:
        from rewound.actors.resource.foreign_record import ForeignRecords

        node.foreign.check = ForeignRecords(registry, journal, definition_type(names)).check
    next_offset = committer.next_offset if send is None else lambda: journal.head + IN_FLIGHT
    publication = Publication(names, registry, journal, feed, next_offset, rules, settings.features)
    committer.commits_on_loop = publication.establishes
    access = build_access(settings, names, journal, feed, clock, extensions)
    calls_out = calls_out and not extensions.isolated
    calls = HttpsCalls()
    conversion_clients = WebhookClients(Services(journal), WebhookCredentials(), calls)
    converter = Converter(names, conversion_clients if calls_out else NoClients())
    limits_of = "spec" if settings.controllers.runs("resourcequota", rules) else "status"
    quotas = QuotaAccounts(names, journal, feed, settings.features, limits_of)

    async def create_missing_namespace(name: str) -> None:
        await create_namespace(names, registry, directory, write_contexts, name)

    running = _running_plugins(
        PluginContext(
            names,
            journal,
            feed,
            access.authorizer,
            access.rbac,
            registry,
            converter,
            calls,
            quotas,
            create_missing_namespace,
            settings.service_ranges,
            settings.features,
            settings.admission.configuration(names),
            rules,
            settings.plugins_off,
        ),
        extensions.admission_plugins,
    )
    admission = Admission(running)
    actor_context = ActorContext(
        journal,
        committer,
        admission,
        AdmissionCalls(),
        LargeWork(),
        nursery,
        converter,
        ObjectSizes(settings.max_object_size, names, ProtobufEncoder(registry, names).size),
        inf if repeatable else LONGEST_STEP,
    )
    if send is None:
        directory = Directory(registry, supervisor, nursery, actor_context)
    else:
        directory = RemoteDirectory(registry, supervisor, nursery, actor_context, send)
    if node is None:
        quotas.write_with(QuotaCharges(names, registry, directory, write_contexts, quotas).charge)
        if SERVICE_CIDRS in settings.features:
            addresses = ServiceAddresses(names, registry, directory, write_contexts, journal)
            actor_context.beside["services"] = addresses.submit
    authorities = signing_authorities(settings, names)
    api_services = ApiServices(names, settings.features, journal, feed, forwards=calls_out)
    aggregated = ServersOnDemand(settings, api_services, journal, authorities)
    seconds = settings.secret_history
    windows = {} if seconds is None else {SECRETS: round(seconds * 1_000_000)}
    horizon = Horizon(journal, clock, round(settings.history_seconds * 1_000_000), windows)
    simulated_metrics = None
    if settings.controllers.simulates_nodes(rules):
        # Imported here, because an API server without nodes does not need it.
        from rewound.actors.workloads.simulated_metrics import SimulatedMetrics

        simulated_metrics = SimulatedMetrics(names, registry, journal, feed, clock)
    store = Store(
        names=names,
        rules=rules,
        release=settings.release,
        clock=clock,
        memory=memory,
        registry=registry,
        journal=journal,
        feed=feed,
        committer=committer,
        directory=directory,
        horizon=horizon,
        reads=Reads(journal, feed, horizon, clock, rules),
        write_contexts=write_contexts,
        supervisor=supervisor,
        access=access,
        authorities=authorities,
        plugins=running,
        quotas=quotas,
        admission_timings=admission.timings,
        converter=converter,
        publication=publication,
        api_services=api_services,
        aggregated=aggregated,
        simulated_metrics=simulated_metrics,
        node=node,
    )
    tasks: list[Task] = [
        *([("committer", committer.run)] if node is None else node.tasks),
        (FEED_TASK, feed.run),
        ("conversion webhooks", conversion_clients.run),
    ]
    tasks += access.tasks
    if writes or send is not None:
        tasks += [(f"{PLUGIN_TASK}{one.name}", one.run) for one in running if one.runs]
    context = _controller_context(
        settings, store, _aggregation_context(settings, store) if calls_out else None
    )
    store.loops.extend(description_controllers(context))
    if writes or send is not None:
        store.loops.extend(token_use(context, store.write_contexts, access.accounts.tokens))
    tasks += [(loop.name, loop.run) for loop in store.loops]
    if writes:
        tasks += _writing_tasks(settings, store, context)
    for name, task in tasks:
        nursery.start_soon(supervisor.keep, name, task)
    if node is not None:
        nursery.start_soon(node.follower.run)  # without a supervisor: what ends it needs another start
    return store


def _writing_tasks(settings: Settings, store: Store, context: ControllerContext) -> Iterator[Task]:
    """Start housekeeping and controllers."""
    retention = settings.journal_retention
    keep = round(retention * 1_000_000) if retention else None
    yield (
        "housekeeping",
        Housekeeping(store.journal, store.committer, store.clock, keep, thinning=settings.thinning).run,
    )
    loops = controllers(context, store.publication)
    store.loops.extend(loops)
    running: list[Task] = [(loop.name, loop.run) for loop in loops]
    if settings.controllers.runs_workloads(store.rules):
        # Imported here, because an API server without workloads does not need them.
        from rewound.actors.workloads.built_in import Workloads

        workloads = Workloads(context, _added_controllers(settings))
        store.loops.extend(workloads.loops)
        running += workloads.tasks
    if store.node is None:
        yield from running
    else:
        from rewound.cluster.membership import leading_tasks

        own = leading_tasks(settings, store.node, store.journal, store.clock)
        store.node.election.lead_with([*running, *own])


def _added_controllers(settings: Settings) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """The controllers that share the cache of the workload controllers."""
    from rewound.actors.chaos.controller import ChaosController
    from rewound.actors.nodes.devices import NodeDevices
    from rewound.actors.nodes.simulator import NAME, SimulatedNodes
    from rewound.actors.scheduler.configuration import read_configuration
    from rewound.actors.scheduler.scheduler import Scheduler
    from rewound.actors.stages.controller import StageBook, Stages

    count, version = settings.controllers.nodes, settings.release.patch_release
    book = StageBook() if settings.controllers.plays_stages else None
    manifests = settings.controllers.static_pods
    nodes = partial(SimulatedNodes, count=count, version=version, stages=book, manifests=manifests)
    yield NAME, lambda parts: check_parsed("--static-pods", lambda: nodes(parts))
    if book is not None:
        yield Stages.name, partial(Stages, book=book, version=version, defines=count is not None)
    devices = settings.controllers.node_devices
    if devices is not None and not {DYNAMIC_ALLOCATION, STRUCTURED_DEVICES} <= settings.features:
        why = "needs the feature DynamicResourceAllocation, which this version of Kubernetes does not turn on"
        raise SettingsError("--node-devices", f"{why}; choose --kubernetes-version 1.34 or later")
    yield (
        NodeDevices.name,
        lambda parts: check_parsed("--node-devices", lambda: NodeDevices(parts, devices)),
    )
    fails = settings.enable_test_controls or settings.faults is not None
    yield ChaosController.name, partial(ChaosController, defines=count is not None, fails_requests=fails)
    path = settings.controllers.scheduler_config
    if path is None:
        yield Scheduler.name, Scheduler
    else:
        flag = "--scheduler-config"
        configuration = check_parsed(flag, lambda: read_configuration(path, NAMES[settings.dialect]))
        yield Scheduler.name, partial(Scheduler, configuration=configuration)


def _running_plugins(context: PluginContext, added: Sequence[Plugin]) -> tuple[Plugin, ...]:
    """The enabled admission plugins. Raises SettingsError if one cannot run as it is configured."""
    own = check_parsed(CONFIGURATION_FLAG, lambda: plugins(context))
    running = tuple(one for one in (*own, *added) if one.name not in context.off)
    for plugin in running:
        check_parsed(CONFIGURATION_FLAG, plugin.check_configuration)
    return running


def _aggregation_context(settings: Settings, store: Store) -> AggregationContext:
    servers = store.aggregated
    return AggregationContext(
        store.api_services,
        servers.probe,
        servers.describe,
        partial(published_trust, settings, store.authorities),
        servers.delete_content,
        bool(settings.secure_binds),
        servers.get_document,
    )


def _controller_context(
    settings: Settings, store: Store, aggregation: AggregationContext | None
) -> ControllerContext:
    return ControllerContext(
        names=store.names,
        release=store.release,
        registry=store.registry,
        journal=store.journal,
        feed=store.feed,
        directory=store.directory,
        write_contexts=store.write_contexts if store.node is None else LeaderContexts(store.clock),
        clock=store.clock,
        authorizer=store.access.authorizer,
        authorities=store.authorities,
        signing_duration=settings.signing.cluster_signing_duration,
        rules=store.rules,
        enabled=settings.controllers.enabled_controllers(store.rules),
        issuer=store.access.accounts.issuer,
        quotas=store.quotas,
        publishes_certificate=bool(settings.secure_binds),
        networks=settings.service_ranges.networks,
        event_ttl=settings.controllers.event_ttl,
        aggregation=aggregation,
        whole_cluster=settings.controllers.is_whole_cluster,
        is_short_of_memory=store.memory.process.is_short,
        authorizes_nodes=store.access.authorizes_nodes,
        workloads=settings.workloads,
        clock_jumps=not isinstance(store.clock, WallClock),
    )
