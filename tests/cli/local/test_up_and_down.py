"""`rewound up` and `down`, as processes in a home folder of their own, among neighbours that mean no good."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rewound.cli.local.cluster import LocalCluster
from rewound.cli.local.server import rotate

pytestmark = pytest.mark.timeout(900)  # several processes start, one after the other

WORK = """\
apiVersion: v1
kind: Config
current-context: work
clusters: [{name: work, cluster: {server: "https://work:6443"}}]
contexts: [{name: work, context: {cluster: work, user: ""}}]
"""
MANIFESTS = """\
apiVersion: harbour.example.com/v1
kind: Boat
metadata: {name: tug, namespace: port}
---
apiVersion: v1
kind: Pod
metadata: {name: pilot, namespace: port}
spec: {containers: [{name: pilot, image: pilot}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.harbour.example.com}
spec:
  group: harbour.example.com
  scope: Namespaced
  names: {plural: boats, kind: Boat}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: port}
"""


class Machine:
    """A home folder, and the commands of its user."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state = home / "state" / "rewound"
        self.kubeconfig = home / ".kube" / "config"
        kept = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "PYTHONPATH")}
        self.environment = {**kept, "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}

    def begin(self, *arguments: object, limit: int | None = None) -> subprocess.Popen[str]:
        """Begin a command. `limit`: no file of it, or of its server, gets larger, as on a full disk."""

        def full() -> None:
            assert limit is not None
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        return subprocess.Popen(
            [sys.executable, "-m", "rewound", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.home,
            env=self.environment,
            preexec_fn=None if limit is None else full,
        )

    def run(self, *arguments: object, code: int = 0, limit: int | None = None) -> str:
        """Run a command; returns what it prints, or why it failed."""
        process = self.begin(*arguments, limit=limit)
        return ended(process, code)

    def cluster(self, name: str = "default") -> LocalCluster:
        return LocalCluster(name, self.state)

    def status(self, name: str = "default") -> dict[str, Any]:
        found = self.begin("status", name, "-o", "json")
        document: dict[str, Any] = json.loads(found.communicate(timeout=60)[0])
        return document

    @property
    def contexts(self) -> tuple[str, list[str]]:
        """The current context, and all."""
        found = yaml.safe_load(self.kubeconfig.read_text())
        return found["current-context"], [one["name"] for one in found["contexts"] or ()]


def ended(process: subprocess.Popen[str], code: int = 0) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == code, out + err
    return out if code == 0 else err


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    found = Machine(tmp_path)
    yield found
    for cluster in LocalCluster.all(found.state):
        cluster.stop()


def test_cluster_goes_up_and_down_with_its_data_and_its_context(machine: Machine) -> None:
    machine.kubeconfig.parent.mkdir()
    machine.kubeconfig.write_text(WORK)
    (machine.home / "port.yaml").write_text(MANIFESTS)
    printed = machine.run("up", "--nodes", "1", "--load", "port.yaml")
    assert "Applied 4 objects of port.yaml." in printed and printed.count("\n  ") == 3
    assert machine.contexts == ("rewound-default", ["work", "rewound-default"])
    first = machine.status()
    assert (first["status"], first["nodes"], first["kubernetes"][:4]) == ("running", 1, "1.36")
    assert "is ready." in machine.run("logs")
    assert "pilot" in machine.run("history", "pod", "pilot", "-n", "port")

    text = machine.kubeconfig.read_text()
    machine.kubeconfig.write_text(text.replace('current-context: "rewound-default"', "current-context: work"))
    assert "default is running" in machine.run("up")
    assert machine.contexts[0] == "rewound-default"
    assert "other flags" in machine.run("up", "--nodes", "2", code=1)

    assert "its data stays" in machine.run("down")
    assert machine.contexts == ("work", ["work"])
    assert machine.status()["status"] == "stopped" and machine.cluster().pid is None
    assert "was not running" in machine.run("down")

    machine.run("up", "--flag=--event-ttl=5m")
    again = machine.status()
    assert (again["server"], again["nodes"]) == (first["server"], 1) and again["pid"] != first["pid"]
    assert "rewound-up" in machine.run("history", "boats", "tug", "-n", "port")

    copied = machine.run("up", "copy", "--recording", machine.cluster().data)
    assert "copy is up" in copied
    assert "rewound-up" in machine.run("history", "boats", "tug", "-n", "port", "--context", "rewound-copy")
    assert [line.split()[:2] for line in machine.run("list").splitlines()[1:]] == [
        ["copy", "running"],
        ["default", "running"],
    ]
    assert "has data already" in machine.run("up", "copy", "--recording", machine.cluster().data, code=2)
    machine.run("down", "copy", "--delete")
    machine.run("down", "--delete")
    assert machine.contexts == ("work", ["work"])
    assert LocalCluster.all(machine.state) == []
    assert "there is no cluster default" in machine.run("down", code=1)


def test_two_commands_at_once(machine: Machine) -> None:
    same = [machine.begin("up", "same", "--nodes", "0") for _ in range(2)]
    other = machine.begin("up", "other", "--nodes", "0")
    printed = [ended(one) for one in (*same, other)]
    assert sorted("is running" in one for one in printed) == [False, False, True]
    assert sorted(machine.contexts[1]) == ["rewound-other", "rewound-same"]
    found = json.loads(machine.run("list", "-o", "json"))
    assert [one["status"] for one in found] == ["running", "running"]
    assert len({one["server"] for one in found}) == 2


def test_machine_was_switched_off_and_another_process_has_the_pid(machine: Machine) -> None:
    machine.run("up", "--nodes", "0")
    cluster = machine.cluster()
    pid = cluster.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with subprocess.Popen(["sleep", "600"]) as other:
        while cluster.is_running:
            pass
        (cluster.folder / "server.lock").write_text(f"{other.pid}\n")
        assert machine.status()["status"] == "stopped"
        assert "was not running" in machine.run("down")
        assert "default is up" in machine.run("up")
        assert other.poll() is None
        other.kill()


def test_failed_start_shows_the_log_and_leaves_what_was_there(machine: Machine) -> None:
    wrong = ("up", "--flag=--event-ttl=never")
    assert "did not start: its server ended with exit code 2\n  rewound: --event-ttl: " in machine.run(
        *wrong, code=1
    )
    assert not machine.cluster().folder.exists() and not machine.kubeconfig.exists()
    full = machine.run("up", "--nodes", "0", code=1, limit=100_000)
    assert "did not start" in full and "no room" in full, full
    assert not machine.cluster().folder.exists()

    machine.run("up", "--nodes", "0")
    machine.run("down")
    before = machine.cluster().stored()
    machine.run(*wrong, code=1)
    assert machine.cluster().stored() == before
    machine.run("up")


@pytest.mark.parametrize(
    ("prepare", "arguments", "error"),
    [
        (lambda home: (home / "state").write_text(""), ("up",), "state"),
        (lambda home: (home / ".kube").write_text(""), ("up",), ".kube"),
        (lambda home: broken(home), ("up",), "is neither YAML nor JSON at line "),
        (lambda home: None, ("up", "--load", "nothing"), "--load: nothing does not exist"),
        (lambda home: None, ("up", "Name"), "'Name' cannot be the name of a cluster"),
        (lambda home: None, ("up", "--recording", "nothing"), "nothing"),
        (lambda home: None, ("logs", "nobody"), "there is no cluster nobody"),
    ],
)
def test_refused_before_anything_starts(
    machine: Machine, prepare: Callable[[Path], object], arguments: tuple[str, ...], error: str
) -> None:
    prepare(machine.home)
    process = machine.begin(*arguments)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (1, 2) and error in err, err
    assert err.startswith("rewound: ") and err.count("\n") == 1
    assert not machine.cluster().folder.exists()


def broken(home: Path) -> None:
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text("{{")


def test_log_begins_again_when_it_is_large(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("a") as file:
        file.write("old\n")
        file.flush()
        rotate(log, 4, (file.fileno(),))
        rotate(log, 3, (file.fileno(),))
        file.write("new\n")
    assert (log.read_text(), (tmp_path / "server.log.1").read_text()) == ("new\n", "old\n")
