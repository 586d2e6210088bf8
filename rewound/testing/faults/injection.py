"""Applies fault rules to requests: the pipeline calls `FaultInjection` in place of dispatch while there are rules.

A fault that was applied is visible: in the header Rewound-Fault of the response (its value is the name of the rule), in
the log, in a metric and in the audit log. Requests for health, metrics, discovery and everything below /debug never
come here, and the server's own controllers send no requests at all.
"""

from __future__ import annotations

import logging
from typing import Final

import trio

from rewound.actors import errors as cause
from rewound.actors.errors import Resource
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.selectors import criteria, matcher
from rewound.actors.store.reads import CURRENT, TOKEN_TOO_OLD, VERSION_TOO_OLD, Token, parse_token
from rewound.gateway.handlers.dispatch import Dispatch
from rewound.gateway.handlers.lists import parse_selectors
from rewound.gateway.message import EndReason, Finished, ReplyLost, Response
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.errors import Failure, failure_of, plain_failure
from rewound.gateway.pipeline.parameters import Parameters
from rewound.gateway.watch.framing import Framing
from rewound.gateway.watch.member import Pipe
from rewound.gateway.watch.selection import Selection
from rewound.gateway.watch.watch import Watch
from rewound.rewind.past_reads import PastReads
from rewound.testing.faults.held_watches import HeldWatches, ListScope
from rewound.testing.faults.older_versions import OlderVersions, may_be_stale, names_version
from rewound.testing.faults.rules import (
    NAMES,
    NOTHING,
    CutWatch,
    Decision,
    Decisions,
    ErrorResponse,
    ExpiredVersion,
    FaultRequest,
    Faults,
    LagWatch,
    LostReply,
    RepeatEvents,
    StaleRead,
    WriteConflict,
)

logger = logging.getLogger(__name__)

HEADER: Final = b"rewound-fault"
ANNOTATION: Final = "faults.rewound.cluster.io/rule"

Applied = dict[tuple[str, ...], float]  # how often, by rule and fault


class InjectedRequest:
    """One request with what happens to it; the pipeline waits before it calls `serve`."""

    def __init__(self, injection: FaultInjection, context: RequestContext, decisions: Decisions) -> None:
        self._injection, self._context, self._decisions = injection, context, decisions
        self.delay_seconds = sum(one.delay_seconds for one in decisions.delays)

    async def serve(self, dispatch: Dispatch) -> Response:
        """Raises ReplyLost if the client gets no response."""
        return await self._injection.serve(self._context, dispatch, self._decisions)


class FaultInjection:
    def __init__(
        self, faults: Faults, reads: PastReads, older: OlderVersions, held: HeldWatches, applied: Applied
    ) -> None:
        """`applied` is a counter for metrics that outlives a set of rules."""
        self.faults = faults
        self._reads = reads
        self._older = older
        self._held = held
        self._applied = applied

    def __call__(self, context: RequestContext) -> InjectedRequest:
        """Decide about a request of a resource, and count and report its delays."""
        decisions = NOTHING if context.route.rewinds else self.faults.decide(fault_request(context))
        for delay in decisions.delays:
            self._note(context, delay)
        if decisions.lag is not None:
            self._note(context, decisions.lag)
        return InjectedRequest(self, context, decisions)

    async def serve(self, context: RequestContext, dispatch: Dispatch, decisions: Decisions) -> Response:
        """Serve a request after its delays, with its fault."""
        if decisions is NOTHING:
            return await self._serve(context, dispatch)
        decision = decisions.fault
        try:
            if decision is None:
                response = await self._serve(context, dispatch)
            else:
                self._note(context, decision)
                response = await self._apply(context, dispatch, decision)
        except cause.RequestError as error:
            response = await _refuse(context, error)  # here, so that it gets the header too
        if decisions.lag is not None:
            self._lag(response, decisions.lag)
        names = [one.rule.name for one in decisions.all]
        response.headers = [*response.headers, (HEADER, ",".join(names).encode())]
        return response

    def _lag(self, response: Response, decision: Decision) -> None:
        stream, fault = response.stream, decision.rule.fault
        watch = stream.watch if isinstance(stream, BrokenWatch) else stream
        if isinstance(watch, Watch) and isinstance(fault, LagWatch):
            self._held.lag(watch, fault)

    async def _serve(self, context: RequestContext, dispatch: Dispatch) -> Response:
        """Serve a request without a fault. A list that may be old is as old as the held watches of its client."""
        if context.route.verb == "list" and self._held.holds and not context.route.rewinds:
            request = fault_request(context)
            definition = dispatch.find(context.route)
            found = self._held.list_version(request, definition.type_name) if request.may_be_stale else None
            if found is not None and definition.is_stored:
                if not definition.is_loaded:
                    await trio.to_thread.run_sync(definition.load)
                return await self._list_held(context, dispatch, definition, *found)
        return await dispatch(context)

    async def _list_held(
        self, context: RequestContext, dispatch: Dispatch, definition: Definition, hold: str, oldest: int
    ) -> Response:
        asked = max(oldest, int(context.parameters.first("resourceVersion") or "0"))
        version = self._older.bounded(asked)
        if version is None:
            response = await dispatch(context)
        else:
            response = await self._reads.read_older(context, definition, version)
            response.headers = [*response.headers, (HEADER, hold.encode())]
        scope = await self._scope(context, definition)
        self._held.listed(fault_request(context), scope, asked if version is None else version)
        return response

    @staticmethod
    async def _scope(context: RequestContext, definition: Definition) -> ListScope:
        """The objects of a list, as those of a watch with the same parameters."""
        labels, fields = await parse_selectors(context, definition)
        namespace = context.route.namespace if definition.namespaced and context.route.namespace else None
        name = fields.exact("metadata.name") if fields else None
        selection = Selection(namespace, name, matcher(labels, fields), criteria(labels, fields))
        key = (definition, namespace, str(labels or ""), str(fields or ""))
        return ListScope(key, definition.type_name, selection)

    async def _apply(self, context: RequestContext, dispatch: Dispatch, decision: Decision) -> Response:
        match decision.rule.fault:
            case StaleRead() as fault:
                return await self._read_stale(context, dispatch, fault)
            case RepeatEvents(events):
                self._repeat(context, dispatch.find(context.route), events)
                return await dispatch(context)
            case CutWatch(end=end):
                response = await dispatch(context)
                if isinstance(response.stream, Watch):
                    response.stream = BrokenWatch(response.stream, decision.event_count, end)
                return response
            case ExpiredVersion():
                return await self._expire(context, dispatch)
            case WriteConflict():
                return await self._conflict(context, dispatch)
            case ErrorResponse() as fault:
                if fault.after_write:
                    await _serve_without_reply(context, dispatch)
                return await render.failure(context, _failure(decision.rule.name, fault))
            case LostReply(after_write):
                if after_write:
                    await _serve_without_reply(context, dispatch)
                await trio.lowlevel.checkpoint()  # HTTP/2 expects this error from tasks that have waited
                raise ReplyLost
        raise AssertionError(decision.rule.fault)

    async def _read_stale(self, context: RequestContext, dispatch: Dispatch, fault: StaleRead) -> Response:
        definition = dispatch.find(context.route)
        if not definition.is_stored:
            return await dispatch(context)
        if not definition.is_loaded:
            await dispatch(context)  # loads it
        asked = int(context.parameters.first("resourceVersion") or "0")
        version = self._older.stale_version(fault, asked)
        if version is None:
            return await dispatch(context)
        if context.route.verb == "watch":
            response = await dispatch(context)
            if isinstance(response.stream, Watch):
                response.stream.begin_at(version)
            return response
        return await self._reads.read_older(context, definition, version)

    def _repeat(self, context: RequestContext, definition: Definition, events: int) -> None:
        """Change the version that the watch starts from."""
        parameters = context.parameters
        version = int(parameters.first("resourceVersion") or "0")
        start = self._older.start_of_repeat(definition.type_name, version, events)
        context.parameters = Parameters({**parameters.values(), "resourceVersion": [str(start)]})

    async def _expire(self, context: RequestContext, dispatch: Dispatch) -> Response:
        if context.route.verb == "watch":
            response = await dispatch(context)
            if isinstance(response.stream, Watch):
                response.stream = ExpiredWatch(response.stream)
            return response
        dispatch.check(context)
        if token := context.parameters.first("continue"):
            found = parse_token(token)
            fresh = Token(CURRENT, found.issued, found.namespace, found.after, -1)
            return await _refuse(context, cause.Expired(TOKEN_TOO_OLD, fresh=str(fresh)))
        return await _refuse(context, cause.Expired(VERSION_TOO_OLD))

    async def _conflict(self, context: RequestContext, dispatch: Dispatch) -> Response:
        dispatch.check(context)
        route = context.route
        return await _refuse(
            context, cause.Conflict(Resource(route.group, route.resource), route.name, cause.STALE)
        )

    def _note(self, context: RequestContext, decision: Decision) -> None:
        rule, route = decision.rule, context.route
        kind = NAMES[type(rule.fault)]
        self._applied[rule.name, kind] = self._applied.get((rule.name, kind), 0) + 1
        logger.info(
            "fault rule %s (%s) applies to %s %s of %s (%s), its request number %d",
            rule.name,
            kind,
            route.verb,
            route.path,
            context.user.name,
            decision.client[1],
            decision.ordinal,
        )
        exchange = context.exchange
        if exchange is not None:
            exchange.annotate(ANNOTATION, rule.name)


async def _serve_without_reply(context: RequestContext, dispatch: Dispatch) -> None:
    """Serve a request whose response is dropped, including an error response."""
    try:
        response = await dispatch(context)
    except cause.RequestError:
        return
    if response.parts is not None and hasattr(response.parts, "aclose"):
        await response.parts.aclose()


async def _refuse(context: RequestContext, error: cause.RequestError) -> Response:
    failure = failure_of(error)
    if failure is None:
        raise error
    context.warnings.extend(error.warnings)
    return await render.failure(context, failure)


def _failure(rule: str, fault: ErrorResponse) -> Failure:
    message = fault.message or f"the fault rule {rule} responds in place of the server"
    plain = plain_failure(fault.code, message)
    if not fault.retry_after_seconds:
        return plain
    seconds = fault.retry_after_seconds
    headers = [(b"retry-after", str(seconds).encode())]
    return Failure(fault.code, plain.reason, message, {"retryAfterSeconds": seconds}, headers)


def fault_request(context: RequestContext) -> FaultRequest:
    """The fields of a request that rules match."""
    route, parameters = context.route, context.parameters
    agent = context.request.headers.get(b"user-agent", b"").decode("latin-1")
    return FaultRequest(
        context.user.name,
        agent,
        route.verb,
        route.group,
        route.resource,
        route.subresource,
        route.namespace,
        route.name,
        bool(parameters) and names_version(route.verb, parameters),
        bool(parameters) and may_be_stale(route.verb, parameters),
    )


# The type of an event is in its first bytes, in JSON, protobuf and CBOR.
_TYPE_BYTES = 20
_AT_ONCE = Finished(EndReason.TIME_UP)


class BrokenWatch:
    """Ends its watch after a number of events; bookmarks do not count, because they depend on time.

    It wraps an ordinary `Watch`, with its own framing and therefore its own group: the framing sees every event once,
    counts it, and drops those after the cut. So it works with every transport.
    """

    def __init__(self, watch: Watch, events: int, end: str) -> None:
        self.watch = watch
        self._left = events
        self._end = end  # clean, reset or truncated
        self._over = events == 0 and end != "truncated"  # at once: it does not even start

    @property
    def binary(self) -> bool:
        return self.watch.binary

    async def run(self, connection: Pipe, framing: Framing) -> Finished:
        if self._over:
            return self._ended(_AT_ONCE)
        return self._ended(await self.watch.run(connection, self._counting(framing)))

    async def start(self, connection: Pipe, framing: Framing) -> Finished | None:
        if self._over:
            return self._ended(_AT_ONCE)
        finished = await self.watch.start(connection, self._counting(framing))
        return None if finished is None else self._ended(finished)

    def should_end(self) -> bool:
        return self.watch.should_end()

    async def end(self) -> Finished:
        return self._ended(await self.watch.end())

    def leave(self) -> None:
        self.watch.leave()

    def _ended(self, finished: Finished) -> Finished:
        """Raises OSError if the watch is to end without the end of its stream."""
        if self._over and self._end != "clean":
            raise ConnectionResetError("a fault rule cut this watch")
        return finished

    def _counting(self, framing: Framing) -> Framing:
        def frame(payload: bytes) -> bytes:
            kind = payload[:_TYPE_BYTES]
            if b"ERROR" in kind:
                return framing(payload)
            if self._over:
                return b""
            if b"BOOKMARK" in kind:
                return framing(payload)
            return self._next(framing(payload))

        return frame

    def _next(self, framed: bytes) -> bytes:
        self._left -= 1
        if self._left > 0 or (self._left == 0 and self._end == "truncated"):
            return framed
        self._over = True
        self.watch.end_early()
        if self._left == 0:
            return framed
        return framed[: len(framed) // 2] if self._end == "truncated" else b""


class ExpiredWatch:
    """Sends the ERROR event of a version that is too old, and nothing else."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    @property
    def binary(self) -> bool:
        return self._watch.binary

    async def run(self, connection: Pipe, framing: Framing) -> Finished:
        return await self._watch.expire(connection, framing)

    async def start(self, connection: Pipe, framing: Framing) -> Finished | None:
        return await self._watch.expire(connection, framing)

    def should_end(self) -> bool:
        return self._watch.should_end()

    async def end(self) -> Finished:
        return await self._watch.end()

    def leave(self) -> None:
        self._watch.leave()
