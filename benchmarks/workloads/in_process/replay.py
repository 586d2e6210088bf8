"""What a replay at full speed costs: recorded events, read and delivered to one watcher over plain HTTP.

The server runs in this process, the watcher in another, which reads and counts. The journal has as many events of small
ConfigMaps as `Sizes.missed` says (100,000 in full).
"""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import orjson
import trio

from benchmarks.options import Sizes
from benchmarks.reports.measurement import Measurement
from benchmarks.workloads.workload import Workload
from rewound.actors.selectors.facts import pack_facts
from rewound.gateway.settings.settings import Addresses, Settings
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.recording.replay.control import ReplayControl
from rewound.recording.replay.player import FULL_SPEED, Moment, Player
from rewound.recording.replay.replay import Plan, replay_settings, run_replay
from rewound.recording.replay.source import open_source

TOKEN = "benchmark"
_REQUEST = (
    "GET /api/v1/configmaps?watch=1&resourceVersion=1 HTTP/1.1\r\n"
    f"Host: benchmark\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
)
_BATCH = 1000
_READER = """
import socket, sys
port, count, request = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
sock = socket.create_connection(("127.0.0.1", port))
sock.sendall(request)
part, found, opened = b"", 0, False
while found < count:
    data = sock.recv(1 << 20)
    if not data:
        sys.exit("the watch ended")
    if not opened:
        opened = True
        print("opened", flush=True)
    found += (part + data).count(b"}\\n\\r\\n") - part.count(b"}\\n\\r\\n")
    part = data[-3:]
"""


def replay_speed(sizes: Sizes) -> Measurement:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _record(folder / "journal", sizes.missed)
        cpu = min(trio.run(_replayed, folder, sizes.missed) for _ in range(sizes.rounds))
    rate = (sizes.missed - 1) / cpu
    return Measurement(
        "replay-speed", {"rate": round(rate), "cpu_us": round(1e6 / rate, 2)}, {"events": sizes.missed}
    )


async def _replayed(folder: Path, count: int) -> float:
    """Seconds of CPU from the first event to the last."""
    tokens = folder / "tokens.csv"
    tokens.write_text(f"{TOKEN},benchmark,1\n")
    port, stop, used = _free_port(), trio.Event(), 0.0
    with open_source(folder, folder) as recording:
        settings = replay_settings(
            recording,
            folder / "data",
            Settings,
            secure_port=0,
            insecure_port=port,
            token_auth_file=tokens,
        )
        async with trio.open_nursery() as nursery:

            async def watch(player: Player) -> None:
                nonlocal used
                command = [sys.executable, "-c", _READER, str(port), str(count - 1), _REQUEST]
                process = await trio.lowlevel.open_process(command, stdout=-1)
                assert process.stdout is not None
                await process.stdout.receive_some()  # the head of the response
                used = time.process_time()
                player.play()
                await process.wait()
                used = time.process_time() - used
                await process.stdout.aclose()
                stop.set()

            def ready(_: Addresses, _control: ReplayControl, player: Player) -> None:
                nursery.start_soon(watch, player)

            await run_replay(settings, recording, Plan(Moment(1, 0), speed=FULL_SPEED), ready, stop)
    return used


def _free_port() -> int:
    with closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _record(path: Path, count: int) -> None:
    with closing(Journal.open(path)) as journal:
        type_id = journal.register_type("configmaps")
        previous: dict[str, int] = {}
        for begin in range(1, count + 1, _BATCH):
            batch = []
            for offset in range(begin, min(begin + _BATCH, count + 1)):
                name = f"web-{offset % 1000:03}"
                batch.append(_event(type_id, offset, name, previous.get(name, 0)))
                previous[name] = offset
            journal.append(batch)


def _event(type_id: int, offset: int, name: str, previous: int) -> Event:
    uid = f"00000000-0000-4000-8000-{offset % 1000:012}"
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid,
        "resourceVersion": str(offset),
        "creationTimestamp": "2024-05-01T12:00:00Z",
        "labels": {"app": "web"},
    }
    body = orjson.dumps({"metadata": metadata, "data": {"number": str(offset), "text": "x" * 100}})
    facts = pack_facts({"app": "web"}, {}, uid, ())
    when = 1_600_000_000_000_000 + offset
    verb = "update" if previous else "create"
    return Event(
        offset, type_id, verb, "default", name, previous, False, when, "alice", "kubectl", facts, body
    )


REPLAY: tuple[Workload[Sizes], ...] = (
    Workload("replay-speed", "replay {missed} events to one watcher, at full speed", replay_speed),
)
