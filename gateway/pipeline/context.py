"""What the pipeline knows of one request: route, parameters, user, representation, and warnings to send.

And what dispatch needs of the handlers of the past, which are above it: `Rewind`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable
from dataclasses import dataclass
from math import inf
from typing import Protocol

from actors.access.attributes import Attributes
from actors.access.authorize import NO_OPINION, Decision, Rights
from actors.errors import BadRequest
from actors.flowcontrol.seats import Flow
from actors.identity import User
from actors.kinds.declaration.definition import Definition
from actors.messages import WriteContext
from actors.names import Names
from actors.resource.options import MANAGER_BYTES
from actors.write_context import WriteContexts
from gateway.message import Request, Response
from gateway.pipeline.parameters import EMPTY, Parameters
from gateway.pipeline.route import Route
from gateway.wire.negotiate import JSON, Representation
from gateway.wire.protobuf.objects import ProtobufEncoder


class LastRequest:
    """The last request with a header block, if it had no query: many clients repeat the request line too.

    Connections then pass the same str objects, so that `is` finds out.
    """

    __slots__ = (
        "attributes",
        "changes",
        "classification",
        "decision",
        "flow",
        "method",
        "path",
        "rights",
        "route",
    )

    def __init__(self, path: str, method: str, route: Route, attributes: Attributes) -> None:
        self.path = path
        self.method = method
        self.route = route
        self.attributes = attributes  # without impersonation
        # The decision, as long as the rights are those of the server and have as many changes as then.
        self.decision: Decision = NO_OPINION
        self.rights: Rights | None = None
        self.changes = 0
        # The flow, as long as this is the classification.
        self.flow: Flow | None = None
        self.classification: object = None

    def keep(self, decision: Decision, rights: Rights | None) -> None:
        """Keep the decision as long as these rights do not change; None: it depends on more."""
        if rights is not None:
            self.decision, self.rights, self.changes = decision, rights, rights.changes


@dataclass(slots=True)
class RequestContext:
    request: Request
    route: Route
    parameters: Parameters
    user: User
    representation: Representation
    protobuf: ProtobufEncoder | None  # set if the representation is protobuf
    pretty: bool
    warnings: list[str]
    deadline: float  # that the client has set with `timeout`, by the clock of trio
    webhook_seconds: dict[str, float] | None  # what admission webhooks took of a write

    def __init__(self, request: Request, route: Route, parameters: Parameters, user: User) -> None:
        self.request = request
        self.route = route
        self.parameters = parameters
        self.user = user
        self.representation = JSON
        self.protobuf = None
        self.pretty = False
        self.warnings = []
        self.deadline = inf
        self.webhook_seconds = None

    @property
    def manager(self) -> str:
        """The field manager: the client's fieldManager, or its user agent up to the first slash."""
        if self.parameters is not EMPTY and (chosen := self.parameters.first("fieldManager")):
            return chosen
        facts = self.request.facts
        if not facts.manager:
            facts.manager = _manager_of(self.request.headers.get(b"user-agent", b""))
        return facts.manager

    def warn_of_deprecation(self, warning: str, names: Names) -> None:
        """Warn the client, and have the audit log show that it uses what will go."""
        self.warnings.append(warning)
        exchange = self.request.exchange
        if exchange is not None:
            exchange.annotate(f"{names.group_domain}/deprecated", "true")
            if removed := removed_release(warning):
                exchange.annotate(f"{names.group_domain}/removed-release", removed)

    def seconds(self, name: str) -> float | None:
        """A time limit in seconds; None if it is 0 or absent."""
        value = self.parameters.integer(name)
        if value is not None and value < 0:
            raise BadRequest(f"{name}: Invalid value: {value}: must not be negative")
        return float(value) if value else None


_REMOVED_IN = re.compile(r"unavailable in v([0-9.]+)\+")


def removed_release(warning: str) -> str:
    """In which release what the warning is about goes; empty if it does not say so."""
    found = _REMOVED_IN.search(warning)
    return found[1] if found is not None else ""


def _manager_of(agent: bytes) -> str:
    """A user agent as a field manager. The client did not choose it as one, so it is shortened, not refused."""
    program = agent.partition(b"/")[0].decode(errors="replace")
    if not program.isprintable():
        program = "".join(letter for letter in program if letter.isprintable())
    return program.encode()[:MANAGER_BYTES].decode(errors="ignore") or "unknown"


class Rewind(Protocol):
    def __call__(self, context: RequestContext) -> Awaitable[Response]:
        """Serve a path of the group of the past."""

    def check(self, context: RequestContext) -> object:
        """Raise if such a path or its method is not served."""

    def read_at(self, context: RequestContext, definition: Definition) -> Awaitable[Response]:
        """Serve a get or list of objects as they were."""


_SHOWN = ("fieldManager", "fieldValidation")


def new_write_context(
    contexts: WriteContexts, context: RequestContext, *, suffix: bool = False, large: bool = False
) -> WriteContext:
    exchange = context.request.exchange
    annotations = None
    if exchange is not None:
        annotations = exchange.annotations
        if annotations is None:
            annotations = exchange.annotations = {}
    if context.webhook_seconds is None:
        context.webhook_seconds = {}
    made = contexts.new(
        context.user,
        context.manager,
        suffix=suffix,
        large=large,
        annotations=annotations,
        webhook_seconds=context.webhook_seconds,
    )
    if context.parameters is EMPTY:
        return made
    return made._replace(
        options=tuple((name, sent) for name in _SHOWN if (sent := context.parameters.first(name))),
        deadline=context.deadline,
    )
