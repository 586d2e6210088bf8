"""The seats of a request: how many it takes, and how it returns them while it waits for another server.

With several worker processes a write keeps its seats: it waits for webhooks in the writer process, so a worker does not
know when. If only writes of the writer process returned theirs, more writes would run than the level has seats.

`flow_fields` makes the response headers that name FlowSchema and priority level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from rewound.actors.errors import BadRequest
from rewound.actors.flowcontrol.in_flight import InFlightLimits
from rewound.actors.flowcontrol.priority_and_fairness import (
    BYTES_PER_SEAT,
    PriorityAndFairness,
    body_seats,
    list_seats,
)
from rewound.actors.flowcontrol.seats import Flow
from rewound.actors.names import Names
from rewound.gateway.message import SharedFields
from rewound.gateway.pipeline.context import RequestContext

Limits = PriorityAndFairness | InFlightLimits

_READS: Final = frozenset({"get", "list", "watch"})


def flow_fields(names: Names) -> Callable[[str, str], SharedFields | None]:
    """Return a function of the uids of a FlowSchema and a priority level; a uid is empty until the object is stored."""
    prefix = f"{names.extension_prefix}pf-".encode()

    def fields(schema: str, level: str) -> SharedFields | None:
        uids = ((b"flowschema-uid", schema), (b"prioritylevel-uid", level))
        present = [(prefix + name, uid.encode()) for name, uid in uids if uid]
        return SharedFields(present) if present else None

    return fields


def seats_of(context: RequestContext, limits: Limits, flow: Flow) -> int:
    """How many seats a request takes: at most those of its level; 1 without priority and fairness."""
    route = context.route
    is_list = route.verb == "list"
    if (not is_list and len(context.request.body) <= BYTES_PER_SEAT) or isinstance(limits, InFlightLimits):
        return 1
    if is_list:
        seats = _list_seats(context, limits.stored_objects(route.group, route.resource))
    else:
        seats = body_seats(len(context.request.body))
    return min(seats, flow.level.limit)


class SeatedRequest:
    """A request of a limited flow, in the interface of `actors.runtime.outside`."""

    __slots__ = ("_context", "_keeps", "_limits", "_needed", "_waits", "task")

    def __init__(self, context: RequestContext, limits: Limits) -> None:
        self.task = trio.lowlevel.current_task()
        self._context = context
        self._limits = limits
        self._waits = 0  # nested
        self._needed = 0  # seats to take again
        self._keeps = False  # it keeps its seats while it waits

    def leave(self) -> None:
        """Return the seats. Raises NoSeat if too many requests wait for other servers."""
        context = self._context
        assert context.flow is not None
        if not self._waits:
            self._keeps = context.flow.level.leased and context.seats > 0 and context.route.verb not in _READS
        if not self._waits and not self._keeps:
            self._limits.leave(context.flow, context.user.name, context.seats, context.waited)
            self._needed, context.seats, context.waited = context.seats, 0, None
        self._waits += 1

    async def resume(self) -> None:
        context, needed = self._context, self._needed
        if self._waits == 1 and needed and not self._keeps:
            assert context.flow is not None
            needed = min(needed, context.flow.level.limit)
            try:
                context.waited = await self._limits.start_again(context.flow, needed)
            except BaseException:
                self.end_outside()
                raise
            context.seats = needed
        self.end_outside()

    def end_outside(self) -> None:
        context = self._context
        assert context.flow is not None
        self._waits -= 1
        if not self._waits and not self._keeps:
            self._limits.release_place(context.flow, context.user.name)


def _list_seats(context: RequestContext, stored: int) -> int:
    parameters = context.parameters
    try:
        limit = parameters.integer("limit") or 0
    except BadRequest:
        return 1  # the handler refuses the request
    fields = parameters.first("fieldSelector")
    if fields and "metadata.name=" in fields:
        return 1
    return list_seats(
        stored,
        limit,
        any_version=parameters.first("resourceVersion") == "0",
        selective=bool(fields or parameters.first("labelSelector")),
    )
