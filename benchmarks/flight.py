"""How `rewound flight` keeps up with a large cluster: start, processor time, memory, lag and disk.

    python -m benchmarks.flight                                    5,000 nodes, 150,000 pods, 500 changes a second
    python -m benchmarks.flight --nodes 500 --pods 15000 --rate 50 --seconds 30
    python -m benchmarks.flight --mix leases=1                     one kind alone: its bytes a change
    python -m benchmarks.flight --lists                            a server without WatchList, which sends pages
    python -m benchmarks.flight --over http2                       TLS with HTTP/2, or http1, instead of plain HTTP/1.1

The API server is synthetic and takes almost no processor time: nodes of 4 kB, pods of 4 kB with managedFields and a
lease for each node, as ready bytes. It sends the changes in the proportions of `--mix`. A watch of pods from the
recorder's own server measures the lag: from the moment when a change is sent to the one when a client of the recording
has it. One line of JSON is the result.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import h2.config
import h2.connection
import h2.events
import httpx
import orjson
import trio

from tests.client import pki

Send = Callable[[bytes], Awaitable[None]]
MIX = "leases=6,pods=3,events=1"
WARM = 5.0  # seconds after the start that do not count
BOOKMARK = 30.0  # seconds without an event
TICK = 0.02  # seconds between two parts of the changes
KINDS = {
    "nodes": ("/api/v1/nodes", "Node", "v1", False),
    "pods": ("/api/v1/pods", "Pod", "v1", True),
    "events": ("/api/v1/events", "Event", "v1", True),
    "leases": ("/apis/coordination.k8s.io/v1/leases", "Lease", "coordination.k8s.io/v1", True),
}
SENT = b'"bench/sent":"'


def body_of(kind: str, number: int, version: int, sent: float, random: Random) -> bytes:
    """An object as an API server sends it, about as large as in a cluster."""
    namespace = f"team-{number % 200:03}"
    names = {
        "nodes": (f"node-{number:05}", ""),
        "pods": (f"web-{number % 900:03}-7d9c5b9f6-{number:06}", namespace),
        "leases": (f"node-{number:05}", "kube-node-lease"),
        "events": (f"web-{number:06}.17f{version:012x}", namespace),
    }
    name, where = names[kind]
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(sent))
    metadata: dict[str, Any] = {
        "name": name,
        "uid": str(UUID(int=number << 64 | len(kind))),
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"bench/sent": f"{sent:.6f}"},
        "managedFields": _managers(kind, at),
    }
    if where:
        metadata["namespace"] = where
    _, kind_name, api_version, _ = KINDS[kind]
    return orjson.dumps(
        {
            "kind": kind_name,
            "apiVersion": api_version,
            "metadata": metadata,
            **_content(kind, number, version, at),
        }
    )


def _managers(kind: str, at: str) -> list[dict[str, Any]]:
    fields = {"f:status": {f"f:{one}": {} for one in ("conditions", "phase", "podIP", "hostIP", "startTime")}}
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    if kind in ("leases", "events"):
        return [{"manager": "kubelet", "time": at, **entry, "fieldsV1": {"f:spec": {"f:renewTime": {}}}}]
    spec = {f"f:field{number}": {".": {}, "f:value": {}} for number in range(24)}
    first = {
        "manager": "kube-controller-manager",
        "time": "2026-01-01T00:00:00Z",
        **entry,
        "fieldsV1": {"f:spec": spec},
    }
    return [first, {"manager": "kubelet", "time": at, **entry, "subresource": "status", "fieldsV1": fields}]


def _content(kind: str, number: int, version: int, at: str) -> dict[str, Any]:
    if kind == "leases":
        spec = {
            "holderIdentity": f"node-{number:05}",
            "leaseDurationSeconds": 40,
            "renewTime": at[:-1] + ".000000Z",
        }
        return {"spec": spec}
    if kind == "events":
        involved = {"kind": "Pod", "namespace": f"team-{number % 200:03}", "name": f"web-{number:06}"}
        return {
            "involvedObject": involved,
            "reason": "Unhealthy",
            "message": "Readiness probe failed: HTTP probe failed with statuscode: 503",
            "source": {"component": "kubelet", "host": f"node-{number % 5000:05}"},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
            "type": "Warning",
        }
    conditions = [
        {"type": one, "status": "True", "lastProbeTime": None, "lastTransitionTime": at}
        for one in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    if kind == "nodes":
        images = [
            {"names": [f"registry.example/{one}@sha256:{one:064x}"], "sizeBytes": one} for one in range(20)
        ]
        return {"spec": {"podCIDR": "10.0.0.0/24"}, "status": {"conditions": conditions, "images": images}}
    environment = [{"name": f"SETTING_{one}", "value": f"value-{one}-{number % 7}"} for one in range(20)]
    container = {
        "name": "web",
        "image": "registry.example/shop/web:1.2.3",
        "env": environment,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    spec = {"nodeName": f"node-{number % 5000:05}", "containers": [container], "restartPolicy": "Always"}
    state = {
        "name": "web",
        "restartCount": version % 9,
        "ready": True,
        "image": "registry.example/shop/web:1.2.3",
    }
    return {
        "spec": spec,
        "status": {"phase": "Running", "conditions": conditions, "containerStatuses": [state]},
    }


class Server:
    """Discovery, lists or initial events, and watches, which get the changes as they are made."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.random = Random(46)
        self.version = 1000
        self.watches: dict[str, list[deque[bytes]]] = {one: [] for one in KINDS}
        self.sent: dict[str, int] = dict.fromkeys(KINDS, 0)
        self.connections = 0
        counts = {"nodes": options.nodes, "leases": options.nodes, "pods": options.pods, "events": 0}
        self.objects: dict[str, list[bytes]] = {}
        now = time.time()
        order = [(kind, number) for kind, count in counts.items() for number in range(count)]
        versions = list(range(1001, 1001 + len(order)))
        self.random.shuffle(versions)
        for kind in KINDS:
            self.objects[kind] = []
        for (kind, number), version in zip(order, versions, strict=True):
            self.objects[kind].append(body_of(kind, number, version, now, self.random))
        self.version = 1001 + len(order)

    async def serve(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        try:
            if self.options.over == "http2":
                await Http2(self, stream).run()
            else:
                await self.serve_http1(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def serve_http1(self, stream: trio.abc.Stream) -> None:
        async def chunk(data: bytes) -> None:
            await stream.send_all(_chunk(data))

        received = b""
        while True:
            while b"\r\n\r\n" not in received:
                if not (data := await stream.receive_some()):
                    return
                received += data
            head, _, received = received.partition(b"\r\n\r\n")
            path, kind, query = self.parse(head.split()[1].decode())
            if kind is not None and "watch" in query:
                await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                await self.watch(chunk, kind, query)
                return
            body = self.document(path, kind, query)
            status = b"404 Not Found" if body is None else b"200 OK"
            body = body if body is not None else b'{"kind":"Status","code":404,"message":"not here"}'
            await stream.send_all(b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body)

    def parse(self, target: str) -> tuple[str, str | None, dict[str, str]]:
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        return url.path, next((one for one, (path, *_) in KINDS.items() if path == url.path), None), query

    def document(self, path: str, kind: str | None, query: dict[str, str]) -> bytes | None:
        if kind is not None:
            start, limit = int(query.get("continue", 0)), int(query.get("limit", 1 << 30))
            items, end = self.objects[kind][start : start + limit], start + limit
            token = b',"continue":"%d"' % end if end < len(self.objects[kind]) else b""
            return b'{"metadata":{"resourceVersion":"%d"%b},"items":[%b]}' % (
                self.version,
                token,
                b",".join(items),
            )
        verbs = ["list", "watch"]
        resources = {
            group: [
                {"name": one, "kind": name, "namespaced": namespaced, "verbs": verbs}
                for one, (_, name, api_version, namespaced) in KINDS.items()
                if api_version == group
            ]
            for group in ("v1", "coordination.k8s.io/v1")
        }
        groups = [
            {"name": one, "versions": [{"version": "v1"}]}
            for one in ("authentication.k8s.io", "coordination.k8s.io")
        ]
        found: dict[str, Any] = {
            "/version": {"gitVersion": "v1.25.16" if self.options.lists else "v1.36.4"},
            "/api": {"versions": ["v1"]},
            "/apis": {"groups": groups},
            "/api/v1": {"resources": resources["v1"]},
            "/apis/authentication.k8s.io/v1": {"resources": []},
            "/apis/coordination.k8s.io/v1": {"resources": resources["coordination.k8s.io/v1"]},
            "/api/v1/namespaces/kube-system": {"metadata": {"uid": "bench"}},
        }
        return orjson.dumps(found[path]) if path in found else None

    async def watch(self, send: Send, kind: str, query: dict[str, str]) -> None:
        events: deque[bytes] = deque()
        self.watches[kind].append(events)
        try:
            if "sendInitialEvents" in query:
                version = self.version
                for start in range(0, len(self.objects[kind]), 50):
                    part = self.objects[kind][start : start + 50]
                    await send(b"".join(b'{"type":"ADDED","object":%b}\n' % one for one in part))
                end = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
                last = orjson.dumps({"type": "BOOKMARK", "object": {"metadata": end}})
                await send(last + b"\n")
            quiet = trio.current_time()
            while True:
                if not events and trio.current_time() - quiet > BOOKMARK:
                    bookmark = {
                        "type": "BOOKMARK",
                        "object": {"metadata": {"resourceVersion": str(self.version)}},
                    }
                    events.append(orjson.dumps(bookmark) + b"\n")
                if events:
                    part, quiet = list(events), trio.current_time()
                    events.clear()
                    if self.options.flush:
                        for one in part:
                            await send(one)
                    else:
                        await send(b"".join(part))
                await trio.sleep(TICK)
        finally:
            self.watches[kind].remove(events)

    async def change(self) -> None:
        """Make changes for ever, at the rate of the options."""
        mix = dict(one.split("=") for one in self.options.mix.split(","))
        kinds = cycle([kind for kind, share in mix.items() for _ in range(int(share))])
        due, began = 0, trio.current_time()
        while True:
            await trio.sleep(TICK)
            now = int((trio.current_time() - began) * self.options.rate)
            for _ in range(now - due):
                kind = next(kinds)
                self.version += 1
                count = max(1, len(self.objects[kind])) if kind != "events" else self.version
                number = self.random.randrange(count)
                body = body_of(kind, number, self.version, time.time(), self.random)
                verb = b"MODIFIED" if kind != "events" else b"ADDED"
                if kind != "events":
                    self.objects[kind][number] = body
                self.sent[kind] += 1
                for events in self.watches[kind]:
                    events.append(b'{"type":"%b","object":%b}\n' % (verb, body))
            due = now


class Http2:
    """One connection over HTTP/2, by the library h2."""

    def __init__(self, server: Server, stream: trio.abc.Stream) -> None:
        self.server, self.stream = server, stream
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        self.opened = trio.Event()  # a window
        self.lock = trio.Lock()

    async def run(self) -> None:
        self.h2.initiate_connection()
        await self.flush()
        async with trio.open_nursery() as nursery:
            while data := await self.stream.receive_some(1 << 16):
                for event in self.h2.receive_data(bytes(data)):
                    if isinstance(event, h2.events.RequestReceived):
                        headers = {str(name): str(value) for name, value in event.headers or ()}
                        nursery.start_soon(self.respond, event.stream_id, headers[":path"])
                    elif isinstance(event, h2.events.WindowUpdated | h2.events.RemoteSettingsChanged):
                        self.opened.set()
                        self.opened = trio.Event()
                await self.flush()
            nursery.cancel_scope.cancel()

    async def respond(self, number: int, target: str) -> None:
        path, kind, query = self.server.parse(target)
        send = partial(self.send, number)
        if kind is not None and "watch" in query:
            self.h2.send_headers(number, [(":status", "200")])
            await self.server.watch(send, kind, query)
            return
        body = self.server.document(path, kind, query)
        self.h2.send_headers(number, [(":status", "404" if body is None else "200")])
        await send(body or b"{}")
        self.h2.end_stream(number)
        await self.flush()

    async def send(self, number: int, data: bytes) -> None:
        while data:
            window = min(self.h2.local_flow_control_window(number), 16384)
            if not window:
                await self.opened.wait()
                continue
            self.h2.send_data(number, data[:window])
            data = data[window:]
            await self.flush()

    async def flush(self) -> None:
        async with self.lock:
            await self.stream.send_all(self.h2.data_to_send())


def _tls(folder: str, protocol: str) -> ssl.SSLContext:
    """The server's context; writes the CA for the recorder."""
    certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
    certificate.write_text(pki.server().pem)
    key.write_text(pki.server().key)
    Path(folder, "ca.crt").write_text(pki.authority().pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols([protocol])
    return context


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Process:
    """What the kernel says of a process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kilobytes(self, name: str) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(one.split()[1]) for one in lines if one.startswith(name + ":"))


async def follow(url: str, lags: list[float], began: list[float]) -> None:
    """Watch pods of the recording, and note how old each change is when it is here."""
    async with httpx.AsyncClient(base_url=url, timeout=None, trust_env=False) as client:
        listed = await client.get("/api/v1/pods", params={"limit": 1})
        version = listed.json()["metadata"]["resourceVersion"]
        async with client.stream(
            "GET", "/api/v1/pods", params={"watch": "1", "resourceVersion": version}
        ) as response:
            rest = b""
            async for data in response.aiter_raw():
                now = time.time()
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    sent = float(line.partition(SENT)[2].partition(b'"')[0])
                    if began and sent > began[0]:
                        lags.append(now - sent)


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    server = Server(options)
    lags: list[float] = []
    began: list[float] = []
    async with trio.open_nursery() as nursery:
        if options.during_start:
            nursery.start_soon(server.change)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            url, given = await _listen(server, folder, nursery)
            command = [sys.executable, "-m", "rewound", "flight", f"{folder}/flight", "--server", url]
            flags = [
                "--insecure-port",
                str(port),
                "--secure-port",
                "0",
                "--page-for-everyone",
                "--access-log",
                "none",
            ]
            started = time.monotonic()
            process = subprocess.Popen([*command, *given, *flags], stdout=subprocess.DEVNULL)
            try:
                own, recorder = f"http://127.0.0.1:{port}", Process(process.pid)
                anonymous = [0]
                nursery.start_soon(_sample, recorder, anonymous)
                await _ready(own, process)
                result = {
                    "nodes": options.nodes,
                    "pods": options.pods,
                    "load": os.getloadavg()[0],
                    "start_seconds": round(time.monotonic() - started, 1),
                    "start_processor_seconds": round(recorder.seconds(), 1),
                    "start_anonymous_mb": anonymous[0] >> 10,
                    "start_peak_mb": recorder.kilobytes("VmHWM") >> 10,
                }
                if not options.during_start:
                    nursery.start_soon(server.change)
                nursery.start_soon(follow, own, lags, began)
                await trio.sleep(WARM)
                used, before, sent = await _used(own), recorder.seconds(), dict(server.sent)
                began.append(time.time())
                await trio.sleep(options.seconds)
                used, seconds = await _used(own) - used, recorder.seconds() - before
                changes = {kind: server.sent[kind] - sent[kind] for kind in KINDS}
                total = sum(changes.values())
                lags.sort()
                result |= {
                    "seconds": options.seconds,
                    "changes": changes,
                    "changes_a_second": round(total / options.seconds),
                    "processor_share": round(seconds / options.seconds, 3),
                    "microseconds_a_change": round(seconds / max(1, total) * 1e6),
                    "peak_mb": recorder.kilobytes("VmHWM") >> 10,
                    "anonymous_mb": anonymous[0] >> 10,
                    "lag_seconds": {
                        name: round(lags[int(share * (len(lags) - 1))], 2)
                        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1))
                        if lags
                    },
                    "bytes_a_change": round(used / max(1, total)),
                    "over": options.over,
                    "connections": server.connections,
                }
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)
        nursery.cancel_scope.cancel()
    return result


async def _listen(server: Server, folder: str, nursery: trio.Nursery) -> tuple[str, list[str]]:
    """Serve; returns the URL, and the flags for its CA."""
    over = server.options.over
    if over == "plain":
        serve, given = partial(trio.serve_tcp, server.serve, 0), []
    else:
        context = _tls(folder, "h2" if over == "http2" else "http/1.1")
        serve = partial(trio.serve_ssl_over_tcp, server.serve, 0, context, https_compatible=True)
        given = ["--certificate-authority", str(Path(folder, "ca.crt"))]
    (listener,) = await nursery.start(partial(serve, host="127.0.0.1"))
    socket_listener = listener if over == "plain" else listener.transport_listener
    scheme = "http" if over == "plain" else "https"
    return f"{scheme}://127.0.0.1:{socket_listener.socket.getsockname()[1]}", given


async def _sample(process: Process, most: list[int]) -> None:
    """Note the most memory that no file backs: pages of the journal count in VmHWM too."""
    while True:
        try:
            most[0] = max(most[0], process.kilobytes("RssAnon"))
        except (OSError, StopIteration):
            return
        await trio.sleep(0.25)


async def _ready(url: str, process: subprocess.Popen[bytes]) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=10, trust_env=False) as client:
        while process.poll() is None:
            try:
                if (await client.get("/readyz")).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            await trio.sleep(0.25)
    raise SystemExit("the recorder ended")


async def _used(url: str) -> int:
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as client:
        return int((await client.get("/debug/rewound/flight")).json()["disk"]["used"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--rate", type=int, default=500, help="changes a second")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--mix", default=MIX, help=f"shares of kinds (default {MIX})")
    parser.add_argument("--lists", action="store_true", help="the server has no WatchList")
    parser.add_argument(
        "--over", choices=("plain", "http1", "http2"), default="plain", help="TLS with which HTTP"
    )
    parser.add_argument("--flush", action="store_true", help="each event in a chunk or frame of its own")
    parser.add_argument("--during-start", action="store_true", help="changes also while the recorder starts")
    parser.add_argument(
        "--folder", help="in which the recording is made, and removed (default: that of temporary files)"
    )
    print(json.dumps(trio.run(measure, parser.parse_args())))


if __name__ == "__main__":
    main()
