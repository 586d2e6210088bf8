"""What a repeated request may skip: one object, cached with the header block that clients repeat, and one rule.

The rule: what is remembered of a request holds for the next one with the same header block if both are equal in
everything that it was computed from (`RequestContext.recall`): method, path and query, all that is known of the user,
and the versions of the access rules, of flow control, of the catalog of kinds and of the pipeline itself. All of these
are compared by value; nothing depends on which Python object a user, a path or a rule is. A request is authenticated
before it is compared: tokens expire and are revoked. A request is remembered when its path comes the second time.

Not remembered: requests that impersonate or that another server serves, and those of users about whom authorizers
decide by more than what has a version (nodes, webhooks). Rejected: a cache of each stage with a rule of its own, which
nobody could read; a cache for all connections, which would compare headers again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

from rewound.actors.access.authorize import Attributes, Decision
from rewound.actors.flowcontrol.seats import Flow
from rewound.gateway.message import Response
from rewound.gateway.wire.negotiate import Media, Representation
from rewound.gateway.wire.protobuf.objects import ProtobufEncoder

IMPERSONATION: Final = b"impersonate-"  # begins the names of headers
# The definition of a kind, and what serves requests for its objects: a function of context and definition.
Served = tuple[Any, Callable[[Any, Any], Response | Awaitable[Response]]]


class Series(Protocol):
    """Requests with the same labels and status code, of `gateway.ops`."""

    def add(self, seconds: float, size: int) -> None: ...


class Running(Protocol):
    """How many requests run that read, or that write; of `gateway.ops`."""

    now: int
    peak: int
    next: float

    def rotate(self, at: float) -> None: ...


class Remembered:
    """What was found out about the last request with a header block, and all that it was computed from."""

    __slots__ = (
        "attributes",
        "computed_from",
        "decision",
        "flow",
        "pretty",
        "protobuf",
        "representation",
        "series",
        "served",
        "status",
    )
    computed_from: tuple[object, ...]
    attributes: Attributes
    flow: Flow | None
    decision: Decision | None
    representation: Representation
    protobuf: ProtobufEncoder | None
    pretty: bool
    served: Served | None
    status: int  # of the last response; 0 at first
    series: Series | None  # of this status


class HeaderBlock:
    """What the pipeline has computed of a header block; requests that repeat the block share it."""

    __slots__ = ("impersonates", "last", "manager", "media", "path", "pretty")

    def __init__(self, names: Iterable[bytes]) -> None:
        self.impersonates = IMPERSONATION in b" ".join(names)  # quicker than a loop over the names
        self.manager = ""  # the field manager of writes that name none
        self.media: Media | None = None  # of the body
        self.pretty: bool | None = None  # whether a tool sends it whose output people read
        self.path = ""  # of the last request
        self.last: Remembered | None = None
