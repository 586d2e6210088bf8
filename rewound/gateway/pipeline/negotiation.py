"""Which representation a response gets, by the headers and parameters of its request and by what it is about."""

from __future__ import annotations

from typing import Final

from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.parameters import EMPTY
from rewound.gateway.pipeline.services import PipelineServices
from rewound.gateway.wire.negotiate import ResponseKind, negotiate, wants_pretty, wants_text

_RESPONSE_KINDS: Final[dict[str, ResponseKind]] = {
    "get": "item",
    "create": "item",
    "update": "item",
    "patch": "item",
    "list": "list",
    "watch": "watch",
}


def choose_representation(context: RequestContext, services: PipelineServices) -> None:
    headers, route, resources = context.request.headers, context.route, services.resources
    accept = headers.get(b"accept")
    if route.rewinds and wants_text(accept):
        return  # the handler responds with text
    if route.rewinds:
        response: ResponseKind = "document"
    elif route.is_resource:
        response = _RESPONSE_KINDS.get(route.verb, "other")
    else:
        response = services.paths.response_kind(route.path)
    chosen = negotiate(accept, services.names, response)
    if chosen.as_kind and route.verb == "create" and resources.creates_review(route):
        chosen = negotiate(accept, services.names, "document")  # a review has no other representation
    protobuf = None
    if chosen.media == "protobuf":
        if route.is_resource and resources.has_protobuf(route) is False and not chosen.as_kind:
            chosen = negotiate(accept, services.names, response, without_protobuf=True)
        else:
            protobuf = services.protobuf
    context.representation, context.protobuf = chosen, protobuf
    context.pretty = chosen.pretty or _wants_pretty(context)


def _wants_pretty(context: RequestContext) -> bool:
    if context.parameters is not EMPTY and (asked := context.parameters.first("pretty")):
        return wants_pretty(asked, b"")
    block = context.block
    if block.pretty is None:
        block.pretty = wants_pretty(None, context.request.headers.get(b"user-agent", b""))
    return block.pretty
