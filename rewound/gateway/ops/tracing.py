"""Traces of requests: OpenTelemetry spans, sent by OTLP over HTTP to a collector.

Imported only if --tracing-config-file or an environment variable of OpenTelemetry asks for it; needs the packages of
`rewound[tracing]`. Names and attributes of spans are those of kube-apiserver:

    GET /api/v1/namespaces/{:namespace}/pods/{:name}      the request, from its arrival to its response
    Get                                                   what the handler of the resource does
    Call mutating webhook                                 a step of it

The context of a client continues only if the client is an administrator or monitors the cluster: anybody else could
choose what is sampled. Of others, the span of the request is the first of a trace, with a link to that of the client.

Spans are collected and sent by a thread of the library. Those that a collector does not take are dropped.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from time import perf_counter, time_ns
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from rewound.actors.identity import MASTERS
from rewound.actors.runtime.trace_context import set_span
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.route import Route

MONITORING: Final = "system:monitoring"
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_HANDLERS: Final = {
    "create": "Create",
    "update": "Update",
    "patch": "Patch",
    "delete": "Delete",
    "deletecollection": "Delete",
    "get": "Get",
    "list": "List",
    "watch": "WatchServer.HandleHTTP",
}


class Tracing:
    def __init__(self, instance: str, endpoint: str = "", samples_per_million: int | None = None) -> None:
        """`endpoint` is the URL of a collector; without one, and without a rate (None), the environment decides."""
        exporter = OTLPSpanExporter(endpoint=endpoint) if endpoint else OTLPSpanExporter()
        name = os.environ.get("OTEL_SERVICE_NAME") or "apiserver"
        resource = Resource.create({SERVICE_NAME: name, SERVICE_INSTANCE_ID: instance})
        self._provider = TracerProvider(sampler=_sampler(samples_per_million), resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("rewound")

    def begin(self, context: RequestContext) -> None:
        """Start the span of a request whose user is known."""
        request, route = context.request, context.route
        carrier = {
            name: request.headers[name.encode()].decode("latin-1")
            for name in ("traceparent", "tracestate")
            if name.encode() in request.headers
        }
        around, links = Context(), list[Link]()
        if carrier:
            around = _PROPAGATOR.extract(carrier, Context())
            groups = context.user.groups
            if MASTERS not in groups and MONITORING not in groups:
                links = [Link(get_current_span(around).get_span_context())]
                around = Context()
        target = f"{request.path}?{request.query}" if request.query else request.path
        attributes = {
            "http.request.method": request.method,
            "http.target": target,
            "url.path": request.path,
            "user_agent.original": request.headers.get(b"user-agent", b"").decode("latin-1"),
        }
        if context.exchange is not None:
            attributes["audit-id"] = context.exchange.audit_id.decode("latin-1")
        span = self._tracer.start_span(
            span_name(request.method, route),
            around,
            SpanKind.SERVER,
            attributes,
            links,
            time_ns() - int((perf_counter() - context.began) * 1e9),
        )
        context.span = _RequestSpan(self._tracer, span)
        if context.forwarded:
            self._pass_on(context, context.span)
        set_span(context.span)

    @staticmethod
    def _pass_on(context: RequestContext, span: _RequestSpan) -> None:
        """Let the other server continue this trace, and not that of the client."""
        own = {name.encode(): value.encode("latin-1") for name, value in span.headers.items()}
        context.request = copy.copy(context.request)
        context.request.headers = {**context.request.headers, **own}

    def stop(self) -> None:
        """Send what has been collected. Blocks."""
        self._provider.shutdown()


def _sampler(samples_per_million: int | None) -> Sampler | None:
    if samples_per_million is None:
        return None
    if samples_per_million == 0:
        return ParentBased(ALWAYS_OFF)
    return ParentBased(TraceIdRatioBased(samples_per_million / 1_000_000))


def span_name(method: str, route: Route) -> str:
    if not route.is_resource:
        return method
    parts = ["apis", route.group] if route.group else ["api"]
    parts.append(route.version)
    if route.namespace:
        parts.append("namespaces/{:namespace}")
    parts.append(route.resource)
    if route.name:
        parts.append("{:name}")
    if route.subresource:
        parts.append(route.subresource)
    return f"{method} /{'/'.join(parts)}"


class _Span:
    """A span that others can be below."""

    __slots__ = ("_context", "_span", "_tracer", "headers")

    def __init__(self, tracer: Any, span: Any) -> None:
        self._tracer, self._span = tracer, span
        self._context = set_span_in_context(span, Context())
        headers: dict[str, str] = {}
        _PROPAGATOR.inject(headers, self._context)
        self.headers: Mapping[str, str] = headers

    def child(self, name: str, attributes: Mapping[str, str]) -> _Span:
        return _Span(self._tracer, self._tracer.start_span(name, self._context, attributes=dict(attributes)))

    def end(self, problem: str = "") -> None:
        if problem:
            self._span.set_status(Status(StatusCode.ERROR, problem))
        self._span.end()


class _RequestSpan(_Span):
    __slots__ = ("_handler",)

    def __init__(self, tracer: Any, span: Any) -> None:
        super().__init__(tracer, span)
        self._handler: _Span | None = None

    def dispatch(self, context: RequestContext) -> None:
        """The handler of a resource begins."""
        route = context.route
        if route.is_resource and route.verb in _HANDLERS:
            attributes = {
                "verb": route.verb,
                "api-group": route.group,
                "api-version": route.version,
                "resource": route.resource,
                "subresource": route.subresource,
                "namespace": route.namespace,
                "name": route.name,
            }
            given = {name: value for name, value in attributes.items() if value}
            self._handler = self.child(_HANDLERS[route.verb], given)
            set_span(self._handler)

    def respond(self, status: int) -> None:
        """The request has ended with this status; 0 without a response."""
        set_span(None)
        if self._handler is not None:
            self._handler.end()
        if status:
            self._span.set_attribute("http.response.status_code", status)
        self.end("no response" if not status else f"status {status}" if status >= 500 else "")
