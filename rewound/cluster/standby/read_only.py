"""Refuses writes to a standby, with the URL of the server that takes them.

The status is 405. It is not 503, after which clients retry: a write will not succeed here later. It is not 403, after
which an operator would look for missing rights: a user without rights still gets that.
"""

from __future__ import annotations

from typing import Final

from rewound.gateway.message import Response
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.errors import MethodNotAllowed
from rewound.gateway.pipeline.route import Route
from rewound.gateway.pipeline.services import Resources

_READS: Final = frozenset({"get", "list", "watch"})


class ReadOnlyResources:
    def __init__(self, resources: Resources, leader: str) -> None:
        self._resources = resources
        self._message = f"this server is a standby and only reads: send writes to its leader, {leader}"
        self.creates_review = resources.creates_review
        self.has_protobuf = resources.has_protobuf

    async def __call__(self, context: RequestContext) -> Response:
        if not self._reads(context.route):
            self.check(context)
        return await self._resources(context)

    def check(self, context: RequestContext) -> None:
        self._resources.check(context)  # 404 comes before 405
        if not self._reads(context.route):
            raise MethodNotAllowed(("GET", "HEAD"), self._message)

    def _reads(self, route: Route) -> bool:
        """Whether a request changes nothing in the journal: reads, connections to pods and kubelets, and reviews."""
        return (
            route.verb in _READS or route.forwarded or (route.verb == "create" and self.creates_review(route))
        )
