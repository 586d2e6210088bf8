"""How many seats a request takes, and the response headers that name its FlowSchema and priority level."""

from __future__ import annotations

from collections.abc import Callable

from rewound.actors.errors import BadRequest
from rewound.actors.flowcontrol.in_flight import InFlightLimits
from rewound.actors.flowcontrol.priority_and_fairness import (
    BYTES_PER_SEAT,
    body_seats,
    list_seats,
)
from rewound.actors.flowcontrol.seats import Flow
from rewound.actors.names import Names
from rewound.gateway.message import SharedFields
from rewound.gateway.pipeline.context import Limits, RequestContext


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
