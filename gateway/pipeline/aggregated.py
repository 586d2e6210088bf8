"""Which requests another server serves, and their seats of flow control."""

from __future__ import annotations

from collections.abc import Mapping

from rewound.actors.aggregation.api_services import ApiService
from rewound.actors.flowcontrol.seats import Flow, NoSeat
from rewound.gateway.message import Forwarding, ForwardingClient, Report, Request, Response, asks_upgrade
from rewound.gateway.pipeline import render
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


def forward_seated(
    request: Request, route: Route, response: Response, limits: Limits, flow: Flow
) -> Response:
    """Have a forwarded request take a seat, unless it lasts: once the client's connection forwards it."""
    forwarding = response.forwarding
    lasts = route.verb == "watch" or asks_upgrade(request)
    if forwarding is not None and flow.limited and not lasts:
        response.forwarding = SeatedForwarding(forwarding, limits, flow)
    return response


class SeatedForwarding:
    """Takes a seat of flow control for as long as the other server responds."""

    def __init__(self, forwarding: Forwarding, limits: Limits, flow: Flow) -> None:
        self._forwarding = forwarding
        self._limits = limits
        self._flow = flow

    @property
    def report(self) -> Report | None:
        return self._forwarding.report

    @report.setter
    def report(self, report: Report | None) -> None:
        self._forwarding.report = report

    async def run(self, client: ForwardingClient) -> None:
        waited = None
        if not self._limits.try_start(self._flow, 1):
            try:
                waited = await self._limits.wait(self._flow, 1)
            except NoSeat as error:
                response = render.text(f"{error}\n", 429)
                response.headers.extend(RETRY_SOON)
                if self.report is not None:
                    self.report(429)
                await client.respond(response)
                return
        try:
            await self._forwarding.run(client)
        finally:
            self._limits.end(self._flow.level, 1, waited)
