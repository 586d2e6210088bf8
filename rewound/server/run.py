"""Builds the server from its settings, runs it, and stops it without losing a write.

`run` shows the order. Start: open the store (journal, committer, actors, controllers), create the namespaces, listen,
create the other initial objects, report ready. Stop: /readyz fails first, then (after --shutdown-delay-duration) no new
connections, running requests end, the committer drains, the journal closes. A start that fails before it listens
removes what it created in the data folder; afterwards, clients may have written to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rewound.actors.bootstrap.bootstrap import Bootstrap
from rewound.actors.bootstrap.objects import ServingAddress
from rewound.actors.runtime.clock import Clock, WallClock
from rewound.gateway.settings.settings import Addresses, Settings
from rewound.gateway.store import Store
from rewound.server.api_server import ApiServer
from rewound.server.data_folder import CreatedPaths, warn_of_readable_files
from rewound.server.extensions import NO_EXTENSIONS, Extensions
from rewound.server.open_store import open_store

if TYPE_CHECKING:
    from rewound.actors.bootstrap.serving import ServingNodes
    from rewound.actors.store.etcd.space import Space

Announce = Callable[[Addresses], None]


async def run(
    settings: Settings,
    announce: Announce,
    stop: trio.Event,
    clock: Clock | None = None,
    extensions: Extensions = NO_EXTENSIONS,
    opened_store: Callable[[Store], None] | None = None,
) -> None:
    """Serve until `stop` is set. `announce` is called with the addresses when the server is ready.

    `opened_store` is called with the store right before.
    """
    if settings.standby.follow:
        from rewound.server.standby import run_standby

        await run_standby(settings, announce, stop, clock or WallClock(), extensions, opened_store)
        return
    created = CreatedPaths(settings)
    opened = open_store(settings, clock or WallClock(), created, extensions)
    async with opened as store, trio.open_nursery() as nursery:
        bootstrap = Bootstrap(
            store.names,
            store.registry.current,
            store.journal,
            store.directory,
            store.write_contexts,
            store.release.features,
            aggregates_roles=settings.controllers.runs("clusterrole-aggregation", store.rules),
        )
        await bootstrap.create_namespaces(settings.service_ranges)
        server = ApiServer(settings, store, nursery, extensions)
        addresses = await nursery.start(server.serve)
        created.keep()
        warn_of_readable_files(settings)
        serving = serving_address(settings, addresses)
        nodes = None if serving is None else serving_nodes(store, serving)

        async def create_objects() -> None:
            others = set[ServingAddress]() if nodes is None else await nodes.join()
            await bootstrap.create_objects(settings.service_ranges, serving, others)

        async def create_later(space: Space) -> None:
            while space.problem:
                await space.accepted()
                await bootstrap.create_namespaces(settings.service_ranges)
                await create_objects()

        await create_objects()
        if store.node is not None:
            nursery.start_soon(create_later, store.node.space)
        if nodes is not None:
            nursery.start_soon(nodes.run, bootstrap.update_endpoints, stop)
        server.health.finish_start()
        if opened_store is not None:
            opened_store(store)
        announce(addresses)
        await server.serve_until(stop)
        if nodes is not None:
            await nodes.left.wait()
        nursery.cancel_scope.cancel()


def serving_nodes(store: Store, own: ServingAddress) -> ServingNodes | None:
    """The nodes of the cluster that this server has joined."""
    if store.node is None:
        return None
    from rewound.actors.bootstrap.serving import ServingNodes

    member = store.node.member
    return ServingNodes(member.etcd, member.keys, member.node, own)


def serving_address(settings: Settings, addresses: Addresses) -> ServingAddress | None:
    """The address for the Service of this server: of its secure port, or else of its plain one."""
    listening = addresses.secure or addresses.insecure
    port = settings.fixed_port or (listening[1] if listening is not None else 0)
    if not addresses.hosts or not port:
        return None  # pods cannot reach a Unix socket
    return ServingAddress(addresses.hosts[0], port)
