"""A flight recorder that is killed again and again, and whose server is, misses nothing and has nothing twice.

`pytest -m slow tests/recording/flight/test_kills.py` kills fifty times. The recording is compared with the journal of
the recorded server, event by event.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import httpx
import pytest

from rewound.journal.log import Journal
from rewound.recording.record.gaps import gaps_in
from rewound.recording.record.recorder import FILE
from rewound.testing.fixture.rewound import Rewound
from tests.ports import reserve_port

MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "leases.coordination.cluster.io"
KILLS = pytest.mark.parametrize("kills", [2, pytest.param(25, marks=pytest.mark.slow)])
Found = list[tuple[int, str, str, bytes]]


@contextmanager
def recorder(rewound: Rewound, folder: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "rewound", "flight", str(folder), "--kinds", "configmaps"]
    flags = ["--kubeconfig", str(rewound.kubeconfig), "--secure-port", "0", "--insecure-port", "0"]
    flags[-1] = str(free_port())
    with (
        log.open("ab") as output,
        subprocess.Popen([*command, *flags], stdout=output, stderr=output) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def wait_until(folder: Path, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until an object is in the recording."""
    for _ in range(600):  # a busy machine needs a minute for a start
        assert process.poll() is None, log.read_text()
        if (folder / FILE).exists() and name in names_in(folder):
            return
        time.sleep(0.5)
    pytest.fail(f"{name} is not recorded: {log.read_text()}")


def names_in(folder: Path) -> set[str]:
    """The names of the ConfigMaps of which a data folder has events."""
    if not (folder / "journal" / "data.mdb").exists():
        return set()
    return {one[2] for one in maps_in(folder, exact=False)}


def maps_in(folder: Path, *, exact: bool = True) -> Found:
    return events_in(folder, {"configmaps"}, exact=exact)


def events_in(folder: Path, types: set[str], *, exact: bool = True) -> Found:
    """Version, verb, name and content of the events of types in `default`, since the floor if `exact`."""
    journal = Journal.open(folder / "journal", readonly=True)
    try:
        with journal.read() as view:
            numbers = {journal.type_id(one) for one in types}
            events = [
                one
                for one in view.all_events(view.floor if exact else 0)
                if one.type_id in numbers and one.namespace == "default"
            ]
            return [(one.offset, one.verb, one.name, one.body) for one in events]
    finally:
        journal.close()


@KILLS
def test_nothing_is_missing_and_nothing_twice(rewound: Rewound, tmp_path: Path, kills: int) -> None:
    folder, log, random, ended = tmp_path / "flight", tmp_path / "log", Random(46), threading.Event()

    def write() -> None:
        number = 0
        while not ended.wait(0.1):
            number += 1
            name = f"m{number % 20}"
            rewound.request("POST", MAPS, {"metadata": {"name": name}, "data": {"n": str(number)}})
            rewound.request("DELETE", f"{MAPS}/{name}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(kills):
            mark = f"before-{number}"
            with recorder(rewound, folder, log) as process:
                rewound.request("POST", MAPS, {"metadata": {"name": mark}})
                if number % 3 != 2:  # else it is killed while it starts
                    wait_until(folder, mark, process, log)
                time.sleep(random.random())
                process.send_signal(signal.SIGKILL)
                process.wait(60)
    finally:
        ended.set()
        writer.join()
    rewound.request("POST", MAPS, {"metadata": {"name": "last"}})
    with recorder(rewound, folder, log) as process:
        wait_until(folder, "last", process, log)
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
    ours = maps_in(folder)
    theirs = [one for one in maps_in(rewound.data_dir) if one[0] >= ours[0][0]]
    assert len(ours) > 20
    assert [one[0::2] for one in ours] == [one[0::2] for one in theirs]


class Processes:
    """A server and the recorder beside it, each of which can be killed and started again."""

    def __init__(self, folder: Path, *, tls: bool) -> None:
        self.data, self.flight, self.log = folder / "data", folder / "flight", folder / "log"
        self.port, own = reserve_port(), reserve_port()
        self.url = f"http://127.0.0.1:{self.port}"
        (tokens := folder / "tokens.csv").write_text("secret,admin,1,system:masters\n")
        serve = [
            "serve",
            "--data-dir",
            str(self.data),
            "--secure-port",
            str(reserve_port() if tls else 0),
            "--insecure-port",
            str(self.port),
        ]
        record = ["flight", str(self.flight), "--kinds", "configmaps,leases"]
        if tls:
            record += ["--kubeconfig", str(self.data / "admin.kubeconfig")]
        else:
            record += ["--server", self.url, "--token", "secret"]
        self.commands = {
            "server": [*serve, "--dialect", "cluster", "--token-auth-file", str(tokens)],
            "recorder": [*record, "--secure-port", "0", "--insecure-port", str(own), "--page-for-everyone"],
        }
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.written = 0  # changes for which the server has responded

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "rewound", *self.commands[name]]
        with self.log.open("ab") as output:
            self.running[name] = subprocess.Popen(command, stdout=output, stderr=output)

    def end(self, name: str, how: signal.Signals) -> int:
        process = self.running.pop(name)
        process.send_signal(how)
        return process.wait(120)

    def write_until(self, ended: threading.Event, seed: int) -> None:
        """Create, change and delete objects of two kinds, whether the server responds or not."""
        random = Random(seed)
        with self.client() as client:
            while not ended.wait(0.02):
                maps, name = random.random() < 0.7, f"m{random.randrange(20)}"
                group = "/api/v1" if maps else "/apis/coordination.cluster.io/v1"
                path = f"{group}/namespaces/default/{'configmaps' if maps else 'leases'}"
                body = {"metadata": {"name": name, "annotations": {"n": str(random.random())}}}
                try:
                    if client.put(f"{path}/{name}", json=body).status_code == 404:
                        client.post(path, json=body)
                    self.written += 1
                    if random.random() < 0.2:
                        client.delete(f"{path}/{name}")
                except httpx.HTTPError:
                    time.sleep(0.05)

    def client(self) -> httpx.Client:
        headers = {"authorization": "Bearer secret"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=10, trust_env=False)

    def wait_for_writes(self, count: int) -> None:
        wanted = self.written + count
        for _ in range(600):
            if self.written >= wanted:
                return
            time.sleep(0.5)
        pytest.fail(f"only {count - wanted + self.written} of {count} writes: {self.log.read_text()}")

    def create(self, name: str) -> None:
        """Create a ConfigMap as soon as the server responds."""
        with self.client() as client:
            for _ in range(600):
                try:
                    assert client.post(MAPS, json={"metadata": {"name": name}}).status_code == 201
                    return
                except httpx.HTTPError:
                    assert self.running["server"].poll() is None, self.log.read_text()
                    time.sleep(0.5)
        pytest.fail(f"the server does not respond: {self.log.read_text()}")


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("tls", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["http2", "http1"])
@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_kills_of_recorder_and_server(tmp_path: Path, kills: int, tls: bool) -> None:
    both, random, ended = Processes(tmp_path, tls=tls), Random(f"46 {kills}"), threading.Event()
    writer = threading.Thread(target=both.write_until, args=(ended, 46))
    both.start("server")
    try:
        both.create("first")
        writer.start()
        both.start("recorder")
        wait_until(both.flight, "first", both.running["recorder"], both.log)
        left = kills
        while left:
            time.sleep(random.random() * random.choice((0.2, 2, 6)))  # while it starts, lists, watches
            victims = random.choice((["recorder"], ["server"], ["server", "recorder"]))[:left]
            for name in victims:
                both.end(name, signal.SIGKILL)
            for name in reversed(victims):
                both.start(name)
            left -= len(victims)
        both.wait_for_writes(100)
        ended.set()
        writer.join()
        both.create("last")
        wait_until(both.flight, "last", both.running["recorder"], both.log)
        assert both.end("recorder", signal.SIGTERM) == 0, both.log.read_text()
    finally:
        ended.set()
        for process in both.running.values():
            process.kill()
            process.wait(60)
    types = {"configmaps", LEASES}
    ours, theirs = events_in(both.flight, types), events_in(both.data, types)
    assert len(ours) > 50 and len({one[0] for one in ours}) == len(ours)
    assert [one[0::2] for one in ours] == [one[0::2] for one in theirs if one[0] >= ours[0][0]]
    assert not [one for one in gaps_in(both.flight) if one.missing]
