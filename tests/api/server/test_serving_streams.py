"""--http2-max-streams-per-connection: clients see the limit in the server's SETTINGS."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.gateway.api import served
from tests.gateway.connections.http2.raw_client import RawClient, Setting


@pytest.mark.parametrize(
    ("given", "announced"),
    [
        ({}, 250),
        ({"http2_max_streams_per_connection": 0}, 250),
        ({"http2_max_streams_per_connection": 7}, 7),
    ],
)
async def test_settings_announce_the_maximum_of_streams(given: dict[str, Any], announced: int) -> None:
    async with served(**given) as api:
        assert api.addresses.insecure is not None
        async with await trio.open_tcp_stream(*api.addresses.insecure) as stream:
            client = RawClient(stream)
            await client.open()
            assert client.server_settings[Setting.MAX_CONCURRENT_STREAMS] == announced
