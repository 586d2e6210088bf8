"""Traces of requests: what a collector gets, whose context continues, and what webhooks and other servers get."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trio

from rewound.gateway.settings.settings import TracingSettings
from tests.api.webhooks.hooking import MAPS, hooking
from tests.gateway.aggregation.aggregated import GROUP_VERSION, aggregating, discovering, forwarded, register
from tests.gateway.api import ALICE, served
from tests.gateway.proxy.backends import Call, serving

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"


@dataclass
class Collector:
    """Takes spans by OTLP over HTTP."""

    port: int = 0
    spans: list[Any] = field(default_factory=list)
    resources: list[dict[str, str]] = field(default_factory=list)

    def take(self, body: bytes) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(_texts(group.resource.attributes))
            for scope in group.scope_spans:
                self.spans += scope.spans

    async def named(self, *names: str) -> list[Any]:
        """The first span with each of these names, when they have arrived."""
        with trio.fail_after(60):
            while not set(names) <= {one.name for one in self.spans}:
                await trio.sleep(0.02)
        return [next(one for one in self.spans if one.name == name) for name in names]


def _texts(attributes: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            found.take(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def traced(folder: Path, endpoint: str, **more: Any) -> TracingSettings:
    document = {"apiVersion": "apiserver.config.cluster.io/v1beta1", "kind": "TracingConfiguration", **more}
    path = folder / "tracing.json"
    path.write_text(json.dumps({**document, "endpoint": endpoint}))
    return TracingSettings(tracing_config_file=path)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="rewound[tracing] is not installed")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")  # milliseconds until collected spans are sent


async def test_spans_of_a_write_have_the_names_of_kubernetes_and_webhooks_continue_them(
    tmp_path: Path,
) -> None:
    with collecting() as collector:
        settings = traced(tmp_path, f"127.0.0.1:{collector.port}", samplingRatePerMillion=1_000_000)
        async with hooking(changed={"tracing": settings}) as hooks:
            await hooks.configure("validating", hooks.hook("v.example.com"))
            (await hooks.create("a")).expect(201)
            request, call = await collector.named(
                "POST /api/v1/namespaces/{:namespace}/configmaps", "Call validating webhook"
            )
            [asked] = hooks.peer.received
            await hooks.api.ask("GET", "/nowhere")
            [path] = await collector.named("GET")
    [handler] = [one for one in collector.spans if one.parent_span_id == request.span_id]
    assert handler.name == "Create" and not request.parent_span_id
    assert call.parent_span_id == handler.span_id
    assert asked.headers["traceparent"].startswith(f"00-{call.trace_id.hex()}-{call.span_id.hex()}-")
    attributes = _texts(request.attributes)
    assert (attributes["http.request.method"], attributes["http.target"]) == ("POST", MAPS)
    [status] = [one.value.int_value for one in request.attributes if one.key == "http.response.status_code"]
    assert status == 201
    assert _texts(call.attributes)["webhook"] == "v.example.com"
    assert collector.resources[0]["service.name"] == "apiserver"
    assert path.trace_id != request.trace_id
    assert request.start_time_unix_nano <= handler.start_time_unix_nano <= request.end_time_unix_nano


async def test_only_administrators_continue_a_trace(tmp_path: Path) -> None:
    with collecting() as collector:
        settings = traced(
            tmp_path, f"http://127.0.0.1:{collector.port}"
        )  # only what clients want to be sampled
        async with served(tracing=settings) as api:
            await api.ask("GET", "/version", headers={"traceparent": NOT_SAMPLED})
            await api.ask("GET", "/version", headers={"traceparent": SAMPLED}, token=ALICE)
            await api.ask("GET", MAPS, headers={"traceparent": SAMPLED, "tracestate": "a=1"})
            request, _ = await collector.named("GET /api/v1/namespaces/{:namespace}/configmaps", "List")
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)
    assert request.trace_state == "a=1"
    assert {one.name for one in collector.spans} == {request.name, "List"}


async def test_others_start_a_trace_that_is_linked(tmp_path: Path) -> None:
    with collecting() as collector:
        settings = traced(tmp_path, f"127.0.0.1:{collector.port}", samplingRatePerMillion=1_000_000)
        async with served(tracing=settings) as api:
            await api.ask("GET", "/version", headers={"traceparent": SAMPLED}, token=ALICE)
            [request] = await collector.named("GET")
    assert request.trace_id.hex() != TRACE and not request.parent_span_id
    assert [(one.trace_id.hex(), one.span_id.hex()) for one in request.links] == [(TRACE, PARENT)]


async def test_environment_alone_turns_tracing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.port}")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
        async with served() as api:
            await api.ask("GET", "/version")
            await collector.named("GET")
    assert collector.resources[0]["service.name"] == "mine"


async def test_aggregated_servers_continue_the_trace(tmp_path: Path) -> None:
    with collecting() as collector:
        settings = traced(tmp_path, f"127.0.0.1:{collector.port}", samplingRatePerMillion=1_000_000)
        assert await _forwarded_parent(SAMPLED, tracing=settings) not in ("", PARENT)
        await collector.named(f"GET {GROUP_VERSION}/namespaces/{{:namespace}}/things")


async def test_without_tracing_the_context_of_a_client_is_passed_on() -> None:
    assert await _forwarded_parent(SAMPLED) == PARENT
    async with hooking() as hooks:
        await hooks.configure("validating", hooks.hook("v.example.com"))
        for headers in ({"traceparent": SAMPLED, "tracestate": "a=1"}, {}, {"traceparent": "wrong"}):
            (await hooks.create("a", headers=headers, dryRun="All")).expect(201)
        names = ("traceparent", "tracestate")
        sent = [[one.headers.get(name) for name in names] for one in hooks.peer.received]
        assert sent == [[SAMPLED, "a=1"], [None, None], [None, None]]


async def _forwarded_parent(given: str, **changed: Any) -> str:
    """The span that a server behind an APIService gets as its parent."""

    async def respond(call: Call) -> None:
        await call.reply(b"{}", "Content-Type: application/json", "Connection: close")

    async with serving(discovering(respond), certificate="service") as backend, aggregating(**changed) as api:
        await register(api, backend.port)
        await api.ask("GET", f"{GROUP_VERSION}/namespaces/default/things", headers={"traceparent": given})
        [call] = forwarded(backend)
        return (call.header("traceparent") or "---").split("-")[2]
