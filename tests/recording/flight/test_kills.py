"""A flight recorder that is killed again and again misses nothing, and has nothing twice."""

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

import pytest

from rewound.journal.log import Journal
from rewound.recording.record.recorder import FILE
from rewound.testing.fixture.rewound import Rewound

MAPS = "/api/v1/namespaces/default/configmaps"
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
    for _ in range(120):
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
    """Version, verb, name and content of the events of ConfigMaps in `default`, since the floor if `exact`."""
    journal = Journal.open(folder / "journal", readonly=True)
    try:
        with journal.read() as view:
            number = journal.type_id("configmaps")
            events = [
                one
                for one in view.all_events(view.floor if exact else 0)
                if one.type_id == number and one.namespace == "default"
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
