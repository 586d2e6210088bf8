"""Creates the WriteContext of a request, with the options and audit annotations that admission needs."""

from __future__ import annotations

from actors.messages import WriteContext
from actors.write_context import WriteContexts
from gateway.requests.context import RequestContext
from gateway.requests.parameters import EMPTY

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
