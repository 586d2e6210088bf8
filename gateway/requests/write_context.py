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
    made = contexts.new(context.user, context.manager, suffix=suffix, large=large)
    exchange = context.request.exchange
    if exchange is None and context.parameters is EMPTY:
        return made
    options = tuple((name, sent) for name in _SHOWN if (sent := context.parameters.first(name)))
    if exchange is not None and exchange.annotations is None:
        exchange.annotations = {}
    return made._replace(options=options, annotations=exchange.annotations if exchange is not None else None)
