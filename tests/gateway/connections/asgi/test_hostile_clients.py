"""Hypercorn's protocols on our connections: hostile clients of HTTP/1.1 achieve no more than against our own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from gateway.connections.asgi.worker import HypercornServer
from tests.gateway.connections import http_server
from tests.gateway.connections import test_hostile_aborts as aborts
from tests.gateway.connections import test_hostile_readers as readers
from tests.gateway.connections import test_hostile_sizes as sizes


@pytest.mark.parametrize(
    "attack",
    [
        aborts.test_aborted_upload_is_not_handled,
        aborts.test_half_closed_connection_gets_its_responses,
        aborts.test_disconnect_before_the_response_affects_no_other_client,
        aborts.test_reset_affects_no_other_client,
        readers.test_slow_reader_gets_everything,
        readers.test_pipelined_requests_wait_until_their_client_reads,
        sizes.test_body_of_three_mebibytes_is_the_largest_accepted,
        sizes.test_chunked_body_above_the_limit_is_refused,
    ],
)
async def test_attack(attack: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "Server", HypercornServer)
    await attack()
