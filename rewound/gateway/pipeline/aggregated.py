"""Requests that an aggregated API server serves: finds their APIService, and limits them by priority and fairness."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from rewound.actors.aggregation.api_services import ApiService
from rewound.actors.flowcontrol.seats import Flow, NoSeat
from rewound.gateway.message import Forwarding, ForwardingClient, Report, Response, asks_upgrade
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import Limits, RequestContext
from rewound.gateway.pipeline.errors import RETRY_SOON
from rewound.gateway.pipeline.parameters import Parameters
from rewound.gateway.pipeline.route import Route, find_route, group_version_of

Remote = Mapping[tuple[str, str], ApiService]


def find_aggregated(remote: Remote, route: Route) -> ApiService | None:
    """The APIService whose server serves a request; None if this server does."""
    key = group_version_of(route)
    return None if key is None else remote.get(key)


def aggregated_at(remote: Remote, raw_path: str) -> ApiService | None:
    return find_aggregated(remote, find_route("GET", raw_path))


def is_aggregated_watch(raw_path: str, parameters: Parameters) -> bool:
    """Whether a request to an aggregated API server is a watch: a path with a name is always a get there."""
    return parameters.watch and not find_route("GET", raw_path).name


def limit_forwarding(context: RequestContext, response: Response, limits: Limits) -> Response:
    """Limit a forwarded request like one that waits for a webhook, except watches and upgrades, which last."""
    forwarding, flow = response.forwarding, context.flow
    lasts = context.route.verb == "watch" or asks_upgrade(context.request)
    if forwarding is not None and flow is not None and flow.limited and not lasts:
        response.forwarding = LimitedForwarding(forwarding, limits, flow, context.user.name)
    return response


class LimitedForwarding:
    """A forwarded request: it has a seat only at the moment at which its response starts."""

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
        """Take a seat and return it at once: how fast the body passes depends on the other server and on the client."""
        self._limits.end(self._flow, 1, await self._limits.start_again(self._flow, 1))


class ClientInTurn:
    """Delays the start of a response until it gets a seat: many awaited servers may respond at the same moment."""

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
