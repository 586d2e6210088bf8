"""`rewound flight --rules` that is killed again and again loses no alert, and sends none twice but that of a request
that was under way."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

import orjson
import pytest

from rewound.recording.rules.watch import FILE
from rewound.testing.fixture.rewound import Rewound
from tests.recording.flight.test_kills import free_port, wait_until

MAPS = "/api/v1/namespaces/default/configmaps"
KILLS = pytest.mark.parametrize(
    "kills", [2, pytest.param(15, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
RULES = """\
apiVersion: rewound.cluster.io/v1alpha1
kind: Rules
rules:
- name: large
  expression: event.kind == "ConfigMap" && object.data.size == "9"
  resolveAfter: 6h
  rateLimit: {alerts: 100000, per: 1h}
- name: few
  expression: event.kind == "ConfigMap" && object.data.size == "9"
  resolveAfter: 6h
  rateLimit: {alerts: 3, per: 1h}
sinks:
- webhook: {url: 'http://127.0.0.1:PORT/'}
"""


@dataclass
class Receiver:
    """A webhook that takes a while; it notes the ids of each request, and when the sender was killed."""

    requests: list[tuple[int, list[tuple[str, str]]]] = field(default_factory=list)  # the sender, name and id
    few: set[str] = field(default_factory=set)
    sender: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, body: bytes) -> None:
        items = orjson.loads(body)["items"]
        with self.lock:
            found = [(one["name"], one["id"]) for one in items if one["rule"] == "large"]
            self.requests.append((self.sender, found))
            self.few |= {one["id"] for one in items if one["rule"] == "few"}

    def names(self) -> set[str]:
        with self.lock:
            return {name for _, found in self.requests for name, _ in found}


@contextmanager
def receiving(receiver: Receiver) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.take(self.rfile.read(int(self.headers["content-length"])))
            time.sleep(0.3)  # so that many a kill comes before the response
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join(60)
        server.server_close()


@contextmanager
def recorder(rewound: Rewound, folder: Path, rules: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "rewound", "flight", str(folder), "--kinds", "configmaps"]
    flags = ["--kubeconfig", str(rewound.kubeconfig), "--rules", str(rules)]
    flags += ["--secure-port", "0", "--insecure-port", str(free_port())]
    with (
        log.open("ab") as output,
        subprocess.Popen([*command, *flags], stdout=output, stderr=output) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def wait_for(what: str, holds: object, process: subprocess.Popen[bytes], log: Path) -> None:
    assert callable(holds)
    for _ in range(400):
        assert process.poll() is None, log.read_text()
        if holds():
            return
        time.sleep(0.25)
    pytest.fail(f"{what}: {log.read_text()}")


@KILLS
def test_alerts_are_neither_lost_nor_sent_twice(rewound: Rewound, tmp_path: Path, kills: int) -> None:
    folder, log, rules = tmp_path / "flight", tmp_path / "log", tmp_path / "rules.yaml"
    receiver, random, ended, written = Receiver(), Random(46), threading.Event(), set[str]()

    def write() -> None:
        while not ended.wait(0.1):
            name = f"m{len(written)}"
            rewound.request("POST", MAPS, {"metadata": {"name": name}, "data": {"size": "9"}})
            written.add(name)

    writer = threading.Thread(target=write)
    with receiving(receiver) as port:
        rules.write_text(RULES.replace("PORT", str(port)))
        rewound.request("POST", MAPS, {"metadata": {"name": "before"}})
        with recorder(rewound, folder, rules, log) as process:  # a first start sends nothing of the past
            wait_until(folder, "before", process, log)
            wait_for("the rules begin", (folder / FILE).exists, process, log)
            process.send_signal(signal.SIGKILL)
            process.wait(60)
        writer.start()
        try:
            for number in range(kills):
                receiver.sender += 1
                with recorder(rewound, folder, rules, log) as process:
                    before = len(receiver.requests)
                    if number % 3 != 2:  # else it is killed while it starts
                        sent = lambda before=before: len(receiver.requests) > before  # noqa: E731
                        wait_for("alerts are sent", sent, process, log)
                    time.sleep(2 * random.random())
                    process.send_signal(signal.SIGKILL)
                    process.wait(60)
        finally:
            ended.set()
            writer.join(60)
        receiver.sender += 1
        with recorder(rewound, folder, rules, log) as process:
            wait_for("all alerts are sent", lambda: receiver.names() >= written, process, log)
            process.terminate()
            assert process.wait(60) == 0, log.read_text()
    assert receiver.names() == written
    last = {sender: at for at, (sender, _) in enumerate(receiver.requests)}  # the newest request of each
    seen: dict[str, tuple[str, int]] = {}
    repeated = 0
    for at, (sender, found) in enumerate(receiver.requests):
        for name, id_ in found:
            if name in seen:
                before_id, before = seen[name]
                assert id_ == before_id, f"{name} has two alerts"
                of = receiver.requests[before][0]
                assert of != sender and last[of] == before, f"{name} is sent again without need"
                repeated += 1
            seen[name] = id_, at
    assert len(receiver.few) == 3, "a limit of alerts that ended with a process"
    print(f"{kills} kills, {len(written)} alerts, {repeated} of requests under way sent again")
