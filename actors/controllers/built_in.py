"""The controllers that a server runs, each in its loop. The supervisor runs the loops:

for loop in controllers(context):
    nursery.start_soon(supervisor.keep, loop.name, loop.run)
"""

from __future__ import annotations

from typing import Any

from actors.controllers.context import ControllerContext
from actors.controllers.endpoints import EndpointsController
from actors.controllers.flow_control import FlowControlController
from actors.controllers.garbage.collector import GarbageCollector
from actors.controllers.loop import Controller, Loop
from actors.controllers.namespaces import NamespaceController
from actors.controllers.service_accounts import ServiceAccountController


def controllers(context: ControllerContext) -> tuple[Loop[Any], ...]:
    parts = (context.registry, context.journal, context.directory, context.write_contexts, context.names)
    built: tuple[Controller[Any], ...] = (
        EndpointsController(*parts),
        FlowControlController(*parts),
        GarbageCollector(*parts),
        NamespaceController(*parts),
        ServiceAccountController(*parts),
    )
    return tuple(Loop(one, context.feed) for one in built)
