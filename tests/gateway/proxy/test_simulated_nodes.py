"""The server itself responds to requests for containers on simulated nodes: there is no kubelet."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import orjson

from rewound.gateway.proxy.simulated import DICTIONARY
from tests.gateway.api import Api
from tests.gateway.proxy.backends import POD, proxying, raw_client, receive_all, receive_head, request_head

STARTED = "2023-11-14T22:13:20Z"
MERGE = {"content-type": "application/merge-patch+json"}
EXEC = f"{POD}/exec?command=ls&stdout=true&stderr=true"


async def make_simulated_pod(api: Api, **annotations: str) -> None:
    await api.create("nodes", {"metadata": {"name": "n", "annotations": {"sim/node": "true"}}})
    metadata = {"name": "p", "annotations": {f"sim/{key}": value for key, value in annotations.items()}}
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    created = await api.ask("POST", "/api/v1/namespaces/default/pods", {"metadata": metadata, "spec": spec})
    created.expect(201)
    container = {
        "name": "c",
        "image": "i",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": STARTED}},
    }
    status = {"status": {"phase": "Running", "podIP": "10.244.0.1", "containerStatuses": [container]}}
    (await api.ask("PATCH", f"{POD}/status", status, headers=MERGE)).expect(200)


async def test_log_is_the_annotation() -> None:
    async with proxying() as api:
        await make_simulated_pod(api, log="one\ntwo")
        response = await api.ask("GET", f"{POD}/log?tailLines=1")
        assert (response.status, response.text, response.headers["content-type"]) == (
            200,
            "two\n",
            "text/plain",
        )
        refused = (await api.ask("GET", f"{POD}/log?previous=true")).expect(400)
        assert refused["message"] == 'previous terminated container "c" in pod "p" not found'


async def test_followed_log_grows_until_the_container_ends() -> None:
    async with proxying() as api, raw_client(api) as client:
        await make_simulated_pod(api, log="one")
        await client.send_all(request_head("GET", f"{POD}/log?follow=true"))
        head, rest = await receive_head(client)
        assert head.startswith("HTTP/1.1 200 ")
        while b"one\n" not in rest:
            rest += await client.receive_some(65536)
        longer = {"metadata": {"annotations": {"sim/log": "one\ntwo"}}}
        (await api.ask("PATCH", POD, longer, headers=MERGE)).expect(200)
        while b"two\n" not in rest:
            rest += await client.receive_some(65536)
        ended = {"exitCode": 0, "startedAt": STARTED, "finishedAt": STARTED}
        container = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        status = {"status": {"containerStatuses": [{**container, "state": {"terminated": ended}}]}}
        (await api.ask("PATCH", f"{POD}/status", status, headers=MERGE)).expect(200)
        while not rest.endswith(b"0\r\n\r\n"):
            rest += await client.receive_some(65536)


async def test_proxy_and_ports_lead_nowhere() -> None:
    async with proxying() as api:
        await make_simulated_pod(api)
        assert "is simulated" in (await api.ask("GET", f"{POD}/proxy/")).expect(503)["message"]
        assert "is simulated" in (await api.ask("GET", "/api/v1/nodes/n/proxy/")).expect(503)["message"]
        assert "is simulated" in (await api.ask("POST", f"{POD}/portforward?ports=80")).expect(400)["message"]
        assert (await api.ask("POST", EXEC)).expect(400)["message"] == "Upgrade request required"


def syn_stream(compress: Any, number: int, kind: str) -> bytes:
    fields = [("streamtype", kind), ("port", "1")]
    block = struct.pack(">I", len(fields))
    for text in (part for field in fields for part in field):
        block += struct.pack(">I", len(text)) + text.encode()
    packed = compress.compress(block) + compress.flush(zlib.Z_SYNC_FLUSH)
    payload = struct.pack(">IIBB", number, 0, 0, 0) + packed
    return struct.pack(">HHI", 0x8003, 1, len(payload)) + payload


def frames(data: bytes) -> tuple[list[int], dict[int, bytes], set[int]]:
    """The streams that were replied to, the data of each, and those that have ended."""
    replied, sent, ended = [], dict[int, bytes](), set()
    while data:
        first, second = struct.unpack(">II", data[:8])
        size = second & 0xFFFFFF
        payload, data = data[8 : 8 + size], data[8 + size :]
        if first >> 31:
            assert first & 0xFFFF == 2
            replied.append(struct.unpack(">I", payload[:4])[0])
        else:
            sent[first] = sent.get(first, b"") + payload
            if second >> 24 & 1:
                ended.add(first)
    return replied, sent, ended


async def test_command_over_spdy_has_output_and_exit_code() -> None:
    upgrade = (
        *("Connection: Upgrade", "Upgrade: SPDY/3.1", "Content-Length: 0"),
        *("X-Stream-Protocol-Version: v4.channel.k8s.io", "X-Stream-Protocol-Version: channel.k8s.io"),
    )
    async with proxying() as api:
        await make_simulated_pod(api, exec="total 0", **{"exec-exit-code": "3"})
        async with raw_client(api) as client:
            await client.send_all(request_head("POST", EXEC, *upgrade))
            head, rest = await receive_head(client)
            assert head.startswith("HTTP/1.1 101 ") and "X-Stream-Protocol-Version: v4.channel.k8s.io" in head
            compress = zlib.compressobj(zdict=DICTIONARY)
            for number, kind in ((1, "error"), (3, "stdout"), (5, "stderr")):
                await client.send_all(syn_stream(compress, number, kind))
            while len(frames_of(rest)) < 8:  # three replies, output, status, three ends
                rest += await client.receive_some(65536)
        replied, sent, ended = frames(rest)
        assert (replied, ended) == ([1, 3, 5], {1, 3, 5}) and sent[3] == b"total 0\n" and sent[5] == b""
        status = orjson.loads(sent[1])
        assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


def frames_of(data: bytes) -> list[bytes]:
    """The whole frames."""
    found = []
    while len(data) >= 8 and len(data) >= 8 + (size := struct.unpack(">I", data[4:8])[0] & 0xFFFFFF):
        found.append(data[: 8 + size])
        data = data[8 + size :]
    return found


async def test_command_over_a_websocket_says_that_nothing_runs() -> None:
    upgrade = (
        *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    async with proxying() as api:
        await make_simulated_pod(api)
        for protocol, encoded in (("v5.channel.k8s.io", False), ("base64.channel.k8s.io", True)):
            async with raw_client(api) as client:
                offer = f"Sec-WebSocket-Protocol: other, {protocol}"
                await client.send_all(request_head("GET", EXEC, *upgrade, offer))
                head, rest = await receive_head(client)
                assert head.startswith("HTTP/1.1 101 ") and f"Sec-WebSocket-Protocol: {protocol}" in head
                assert "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
                await client.send_eof()
                messages = payloads(rest + await receive_all(client))
            assert messages[-1] == struct.pack(">H", 1000)
            errors, status = messages[:2]
            if encoded:
                assert b"is simulated" in base64.b64decode(errors[1:]) and errors[:1] == b"2"
                assert base64.b64decode(status[1:]) == b"command terminated with exit code 126"
            else:
                assert errors[:1] == b"\x02" and b"is simulated" in errors
                assert orjson.loads(status[1:])["details"]["causes"][0]["message"] == "126"


def payloads(data: bytes) -> list[bytes]:
    found = []
    while data:
        size, at = data[1], 2
        if size == 126:
            size, at = struct.unpack(">H", data[2:4])[0], 4
        found.append(data[at : at + size])
        data = data[at + size :]
    return found
