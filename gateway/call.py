"""One request on its way through the pipeline: what was asked, by whom, and what to tell besides the answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from actors.access.identity import User
from actors.errors import BadRequest
from gateway.parameters import Parameters
from gateway.request import Request
from gateway.route import Route
from gateway.wire.negotiate import Representation

JSON = Representation("json", b"application/json")


@dataclass(slots=True)
class Call:
    request: Request
    route: Route
    parameters: Parameters
    user: User
    representation: Representation = JSON
    pretty: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def manager(self) -> str:
        """The field manager: named by the client, or its user agent up to the first slash."""
        named = self.parameters.first("fieldManager")
        if named:
            return named
        agent = self.request.headers.get(b"user-agent", b"").decode("latin-1")
        return agent.split("/", 1)[0] or "unknown"

    def seconds(self, name: str) -> float | None:
        """A time limit in seconds; 0 and absence mean none."""
        value = self.parameters.integer(name)
        if value is not None and value < 0:
            raise BadRequest(f"{name}: Invalid value: {value}: must not be negative")
        return float(value) if value else None
