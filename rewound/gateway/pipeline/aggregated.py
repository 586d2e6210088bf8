"""Which requests another server serves, and their turns of flow control."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from rewound.actors.aggregation.api_services import ApiService
from rewound.actors.flowcontrol.seats import Flow, NoSeat
from rewound.gateway.message import Forwarding, ForwardingClient, Report, Response, asks_upgrade
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.errors import RETRY_SOON
from rewound.gateway.pipeline.flow_control import Limits
from rewound.gateway.pipeline.parameters import Parameters
from rewound.gateway.pipeline.route import Route, find_route, group_version_of

Remote = Mapping[tuple[str, str], ApiService]


def find_aggregated(remote: Remote, route: Route) -> ApiService | None:
    """The APIService that leads a request to another server."""
    key = group_version_of(route)
    return None if key is None else remote.get(key)


def aggregated_at(remote: Remote, raw_path: str) -> ApiService | None:
    return find_aggregated(remote, find_route("GET", raw_path))


def is_aggregated_watch(raw_path: str, parameters: Parameters) -> bool:
    """Whether a request to another server is a watch: a get of one object is none there, whatever its parameters."""
    return parameters.boolean("watch") and not find_route("GET", raw_path).name


def respond_in_turn(context: RequestContext, response: Response, limits: Limits) -> Response:
    """Limit a forwarded request like those that wait for somebody outside, unless it lasts. It has begun in turn."""
    forwarding, flow = response.forwarding, context.flow
    lasts = context.route.verb == "watch" or asks_upgrade(context.request)
    if forwarding is not None and flow is not None and flow.limited and not lasts:
        response.forwarding = LimitedForwarding(forwarding, limits, flow, context.user.name)
    return response


class LimitedForwarding:
    """Has no seat of flow control, except for the moment in which its response begins."""

    def __init__(self, forwarding: Forwarding, limits: Limits, flow: Flow, user: str) -> None:
        self._forwarding = forwarding
        self._limits = limits
        self._flow = flow
        self._user = user

    @property
    def report(self) -> Report | None:
        return self._forwarding.report

    @report.setter
    def report(self, report: Report | None) -> None:
        self._forwarding.report = report

    async def run(self, client: ForwardingClient) -> None:
        try:
            self._limits.leave(self._flow, self._user, 0, None)
        except NoSeat as error:
            response = render.text(f"{error}\n", 429)
            response.headers.extend(RETRY_SOON)
            if self.report is not None:
                self.report(429)
            await client.respond(response)
            return
        try:
            await self._forwarding.run(ClientInTurn(client, self._turn))
        finally:
            self._limits.release_place(self._flow, self._user)

    async def _turn(self) -> None:
        """No longer: from its head on, the speed of a response is that of the other server and of the client."""
        self._limits.end(self._flow.level, 1, await self._limits.start_again(self._flow, 1))


class ClientInTurn:
    """A client to whom a response begins in turn: many servers that were awaited may respond at the same moment."""

    def __init__(self, client: ForwardingClient, turn: Callable[[], Awaitable[None]]) -> None:
        self._turn = turn
        self._client = client
        self.receive_body = client.receive_body
        self.wait_disconnected = client.wait_disconnected
        self.send = client.send
        self.finish = client.finish
        self.upgrade = client.upgrade

    @property
    def may_upgrade(self) -> bool:
        return self._client.may_upgrade

    async def respond(self, response: Response) -> None:
        await self._turn()
        await self._client.respond(response)

    async def start(self, response: Response) -> None:
        await self._turn()
        await self._client.start(response)
