"""How many seats of its priority level a request takes, and the header fields that name its FlowSchema and level."""

from __future__ import annotations

from collections.abc import Callable

from rewound.actors.access.authorize import Attributes
from rewound.actors.errors import BadRequest
from rewound.actors.flowcontrol.in_flight import InFlightLimits
from rewound.actors.flowcontrol.priority_and_fairness import PriorityAndFairness, body_seats, list_seats
from rewound.actors.flowcontrol.seats import Flow, Waiting
from rewound.actors.names import Names
from rewound.gateway.message import SharedFields
from rewound.gateway.pipeline.context import RequestContext

Limits = PriorityAndFairness | InFlightLimits


def flow_fields(names: Names) -> Callable[[str, str], SharedFields | None]:
    """Returns a function of the uids of a FlowSchema and a priority level; empty ones are not stored yet."""
    prefix = f"{names.extension_prefix}pf-".encode()

    def fields(schema: str, level: str) -> SharedFields | None:
        uids = ((b"flowschema-uid", schema), (b"prioritylevel-uid", level))
        present = [(prefix + name, uid.encode()) for name, uid in uids if uid]
        return SharedFields(present) if present else None

    return fields


def seats_of(context: RequestContext, limits: Limits, flow: Flow) -> int:
    """Never more than the level has; one each without priority and fairness."""
    if isinstance(limits, InFlightLimits):
        return 1
    route = context.route
    if route.verb == "list":
        seats = _list_seats(context, limits.stored_objects(route.group, route.resource))
    else:
        seats = body_seats(len(context.request.body))
    return min(seats, flow.level.limit)


async def take_seats(limits: Limits, attributes: Attributes, needed: int) -> tuple[Flow, int, Waiting | None]:
    """Take the seats that a request gave back while it was delayed; its level may have changed meanwhile.

    Returns how many it has, none if it needed none, and where it waited for them. NoSeat.
    """
    flow = limits.flow_of(attributes)
    if not needed or not flow.limited:
        return flow, 0, None
    needed = min(needed, flow.level.limit)
    waited = None if limits.try_start(flow, needed) else await limits.wait(flow, needed)
    return flow, needed, waited


def _list_seats(context: RequestContext, stored: int) -> int:
    parameters = context.parameters
    try:
        limit = parameters.integer("limit") or 0
    except BadRequest:
        return 1  # dispatch refuses the request
    fields = parameters.first("fieldSelector")
    if fields and "metadata.name=" in fields:
        return 1
    return list_seats(
        stored,
        limit,
        any_version=parameters.first("resourceVersion") == "0",
        selective=bool(fields or parameters.first("labelSelector")),
    )
