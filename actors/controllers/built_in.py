"""The controllers that a server runs, each in its loop. The supervisor runs the loops:

for loop in controllers(registry, journal, feed, directory, write_contexts, names):
    nursery.start_soon(supervisor.keep, loop.name, loop.run)
"""

from __future__ import annotations

from typing import Any

from actors.controllers.endpoints import EndpointsController
from actors.controllers.flow_control import FlowControlController
from actors.controllers.garbage.collector import GarbageCollector
from actors.controllers.loop import Loop
from actors.controllers.namespaces import NamespaceController
from actors.controllers.service_accounts import ServiceAccountController
from actors.kinds.registry import Registry
from actors.names import Names
from actors.resource.directory import Directory
from actors.store.feed import Feed
from actors.write_context import WriteContexts
from journal.log import Journal


def controllers(
    registry: Registry,
    journal: Journal,
    feed: Feed,
    directory: Directory,
    write_contexts: WriteContexts,
    names: Names,
) -> tuple[Loop[Any], ...]:
    return (
        Loop(EndpointsController(registry, journal, directory, write_contexts, names), feed),
        Loop(FlowControlController(registry, journal, directory, write_contexts, names), feed),
        Loop(GarbageCollector(registry, journal, directory, write_contexts, names), feed),
        Loop(NamespaceController(registry, journal, directory, write_contexts, names), feed),
        Loop(ServiceAccountController(registry, journal, directory, write_contexts, names), feed),
    )
