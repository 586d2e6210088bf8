"""Which controllers a server runs, each in its loop, ready for the supervisor.

for loop in controllers(registry, journal, feed, directory, stamps, names):
    nursery.start_soon(supervisor.keep, loop.name, loop.run)
"""

from __future__ import annotations

from typing import Any

from actors.controllers.endpoints import EndpointsController
from actors.controllers.garbage import GarbageCollector
from actors.controllers.loop import Loop
from actors.controllers.namespaces import NamespaceController
from actors.controllers.service_accounts import ServiceAccountController
from actors.kinds.registry import Registry
from actors.names import Names
from actors.resource.directory import Directory
from actors.stamps import Stamps
from actors.store.feed import Feed
from journal.log import Journal


def controllers(
    registry: Registry, journal: Journal, feed: Feed, directory: Directory, stamps: Stamps, names: Names
) -> tuple[Loop[Any], ...]:
    return (
        Loop(EndpointsController(registry, journal, directory, stamps, names), feed),
        Loop(GarbageCollector(registry, journal, directory, stamps, names), feed),
        Loop(NamespaceController(registry, journal, directory, stamps, names), feed),
        Loop(ServiceAccountController(registry, journal, directory, stamps, names), feed),
    )
