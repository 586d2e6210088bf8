"""The internals of Hypercorn that we use: a version that changes any of them fails here, not in service."""

import inspect

import hypercorn.config
import pytest
from hypercorn.protocol.h2 import H2Protocol, StreamBuffer
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import EventWrapper, TrioSingleTask, WorkerContext

from gateway.connections.http2 import Http2Connection, Http2Protocol, Settings
from gateway.connections.limits import Limits

PARAMETERS = {
    TCPServer.__init__: ["self", "app", "config", "context", "state", "stream"],
    TCPServer.protocol_send: ["self", "event"],
    TCPServer._read_data: ["self"],
    TCPServer._idle_timeout: ["self"],
    TCPServer._initiate_server_close: ["self"],
    H2Protocol.__init__: [
        "self",
        "app",
        "config",
        "context",
        "task_group",
        "connection_state",
        "ssl",
        "client",
        "server",
        "send",
    ],
    H2Protocol._handle_events: ["self", "events"],
    H2Protocol._flush: ["self"],
    H2Protocol.initiate: ["self", "headers", "settings"],
    H2Protocol.stream_send: ["self", "event"],
    H2Protocol.handle: ["self", "event"],
    TCPServer.protocol_send: ["self", "event"],
    H2Protocol._send_data: ["self", "stream_id"],
    H2Protocol._close_stream: ["self", "stream_id"],
    StreamBuffer.close: ["self"],
    TrioSingleTask.restart: ["self", "task_group", "action"],
    TrioSingleTask.stop: ["self"],
    TaskGroup.spawn_app: ["self", "app", "config", "scope", "send"],
    WorkerContext.__init__: ["self", "max_requests"],
}
SETTINGS = [
    "errorlog",
    "h2_max_concurrent_streams",
    "h2_max_header_list_size",
    "include_server_header",
    "keep_alive_max_requests",
    "keep_alive_timeout",
]


@pytest.mark.parametrize(
    ("method", "parameters"), PARAMETERS.items(), ids=[method.__qualname__ for method in PARAMETERS]
)
def test_methods_have_the_parameters_that_we_pass(method: object, parameters: list[str]) -> None:
    assert list(inspect.signature(method).parameters) == parameters  # type: ignore[arg-type]


def test_methods_that_we_override_exist_and_are_called() -> None:
    for ours, theirs in ((Http2Protocol, H2Protocol), (Http2Connection, TCPServer)):
        overridden = [name for name in vars(ours) if name in vars(theirs) and not name.startswith("__")]
        assert overridden, ours
    assert "_handle_events" in vars(Http2Protocol)
    assert "_initiate_server_close" in inspect.getsource(TCPServer._idle_timeout)
    assert "_handle_events" in inspect.getsource(H2Protocol.handle)
    assert "_send_data" in inspect.getsource(H2Protocol.send_task)
    assert "stream_send" in inspect.getsource(H2Protocol._create_stream)


def test_stream_buffers_have_the_attributes_that_senders_wait_on() -> None:
    buffer = StreamBuffer(EventWrapper)
    assert len(buffer.buffer) == 0
    assert buffer._complete is False
    assert isinstance(buffer._paused, EventWrapper)


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_we_set_exist(name: str) -> None:
    assert hasattr(hypercorn.config.Config, name)


def test_our_limits_reach_hypercorn() -> None:
    settings = Settings(Limits(idle_seconds=7, streams=3, head=9000))
    assert settings.keep_alive_timeout == 7
    assert settings.h2_max_concurrent_streams == 3
    assert settings.h2_max_header_list_size == 9000
