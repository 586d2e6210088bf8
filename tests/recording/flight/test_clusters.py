"""Several clusters of one command: a process and a folder for each, a front page, and rights by cluster."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from rewound.cli.flight import flight
from rewound.client.errors import UsageError
from rewound.recording.flight.clusters import parse_clusters
from rewound.testing.fixture.rewound import Rewound

API = "/clusters/api/clusters"


def test_clusters_have_names_files_contexts_and_ports(tmp_path: Path) -> None:
    (one := tmp_path / "a@b.yaml").touch()
    (two := tmp_path / "all").touch()
    texts = [f"prod={one}", f"staging={two}@admin@staging", "own="]
    found = parse_clusters(texts, Path("all"), (6445, 0))
    assert [(each.name, each.kubeconfig, each.context) for each in found] == [
        ("prod", one, ""),
        ("staging", two, "admin@staging"),
        ("own", None, ""),
    ]
    assert [(each.secure, each.plain) for each in found] == [(6446, 0), (6447, 0), (6448, 0)]
    assert found[1].folder == Path("all/staging")


def test_clusters_that_cannot_be_recorded_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "config").touch()
    folder = str(tmp_path / "out")
    named = f"a={file}"

    for given, why in (
        (["--cluster", str(file)], "has no name; write NAME=KUBECONFIG"),
        (["--cluster", f"../a={file}"], "has no name"),
        (["--cluster", f"A={file}"], "has no name"),
        (["--cluster", named, "--cluster", named], "there are two of the name a"),
        (["--cluster", "a=/missing@x"], "there is no file /missing@x"),
        (["--cluster", named, "--secure-port", "65535"], "would be 65536"),
        (["--cluster", named, "--secure-port", "7000", "--insecure-port", "7001"], "are too close"),
        (["--cluster", named, "--kubeconfig", str(file)], "--kubeconfig and --cluster: give one of them"),
        (["--cluster", named, "--token", "x"], "--token and --cluster"),
        (["--cluster", named, "--audit-log", "x"], "a file is of one cluster"),
        (["--cluster", named, "--access-log", "x"], "every cluster has a file of its own"),
        (["--cluster", named, "--only", "b"], "no --cluster has the name b"),
        (["--only", "b"], "no --cluster has the name b"),
        (["--cluster", named, "--secure-port", "0"], "nobody could see the recording"),
    ):
        assert flight([folder, *given]) == 2
        assert why in capsys.readouterr().err
        assert not Path(folder).exists()
    with pytest.raises(UsageError, match="are more than"):
        parse_clusters([f"c{number}={file}" for number in range(51)], Path("x"), (7000, 0))


@contextmanager
def hanging_server() -> Iterator[int]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = []

        def take() -> None:
            while True:
                try:
                    taken.append(listener.accept())
                except OSError:
                    return

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    for connection, _ in taken:
        connection.close()


def free_ports(count: int) -> int:
    """The first of some ports in a row that are free now."""
    for _ in range(100):
        with socket.create_server(("127.0.0.1", 0)) as first:
            port: int = first.getsockname()[1]
        try:
            for number in range(port, port + count):
                socket.create_server(("127.0.0.1", number)).close()
        except (OSError, OverflowError):
            continue
        return port
    pytest.fail("there are no free ports")


def eventually(check: Callable[[], Any], log: Path, process: subprocess.Popen[bytes] | None = None) -> Any:
    for _ in range(240):
        try:
            if found := check():
                return found
        except (httpx.HTTPError, OSError, ValueError):
            pass
        assert process is None or process.poll() is None, log.read_text()
        time.sleep(0.25)
    pytest.fail(log.read_text())


@pytest.mark.timeout(300)
def test_a_cluster_that_hangs_disturbs_no_other(rewound: Rewound, tmp_path: Path) -> None:
    folder, log = tmp_path / "all", tmp_path / "log"
    account = "/api/v1/namespaces/default/serviceaccounts"
    rewound.request("POST", account, {"metadata": {"name": "reader"}})
    token = rewound.request("POST", f"{account}/reader/token", {"spec": {}})["status"]["token"]
    group = rewound.request("GET", "/apis")["groups"]
    rbac = next(one["name"] for one in group if one["name"].startswith("rbac.authorization"))
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": "reader"}
    binding = {"metadata": {"name": "reader"}, "subjects": [subject]}
    binding |= {"roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": rbac}}
    rewound.request("POST", f"/apis/{rbac}/v1/clusterrolebindings", binding)
    rewound.request("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "web"}})
    with hanging_server() as gone:
        lost = yaml.safe_load(rewound.kubeconfig.read_text())
        lost["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{gone}"
        (tmp_path / "gone.yaml").write_text(yaml.safe_dump(lost))
        port = free_ports(3)
        flags = ["--cluster", f"gone={tmp_path / 'gone.yaml'}", "--cluster", f"prod={rewound.kubeconfig}"]
        flags += ["--secure-port", "0", "--insecure-port", str(port), "--kinds", "configmaps"]
        with log.open("ab") as output:
            command = [sys.executable, "-m", "rewound", "flight", str(folder), *flags]
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=40) as front:

                def states() -> dict[str, str]:
                    return {one["name"]: one["state"] for one in front.get(API).json()["items"]}

                eventually(lambda: states()["prod"] == "running", log, process)
                assert states()["gone"] != "running"
                assert front.get("/clusters/").text.startswith("<!doctype html>")
                assert front.get("/").headers["location"] == "/clusters/"
                # A token goes to the cluster of the path only, which decides what its user sees.
                mine = {"authorization": f"Bearer {token}"}
                assert front.get(f"{API}/prod/flight").status_code == 401
                assert (
                    front.get(f"{API}/prod/flight", headers={"authorization": "Bearer no"}).status_code == 401
                )
                assert front.get(f"{API}/prod/flight", headers=mine).status_code == 403
                assert front.get(f"{API}/prod/failing", headers=mine).json()["kind"] == "TimelineHighlights"
                assert front.get(f"{API}/gone/flight", headers=mine).status_code == 504
                for path, code in (
                    (f"{API}/prod/flight?token=x", 400),
                    (f"{API}/prod/%2e%2e/gone/flight", 404),
                    (f"{API}/prod/secrets", 404),
                    (f"{API}/other/flight", 404),
                    ("/clusters/%2e%2e/secret", 404),
                ):
                    assert front.send(front.build_request("GET", path)).status_code == code, path
                assert front.post(f"{API}/prod/flight").status_code == 405
                with httpx.Client(base_url=f"http://127.0.0.1:{port + 2}", timeout=40) as prod:
                    path = "/api/v1/namespaces/default/configmaps/web"
                    eventually(lambda: prod.get(path, headers=mine).status_code == 200, log, process)
                # A recorder that is killed starts again; one whose parent is killed ends.
                before = recorder_of("prod", process.pid)
                os.kill(before, signal.SIGKILL)
                eventually(lambda: recorder_of("prod", process.pid) not in (0, before), log, process)
                eventually(lambda: states()["prod"] == "running", log, process)
                children = [recorder_of(name, process.pid) for name in ("prod", "gone")]
                process.kill()
                process.wait(30)
                eventually(lambda: not any(one and is_running(one) for one in children), log)
        finally:
            process.kill()
            process.wait(30)
    assert (folder / "prod" / "recording.json").exists() and not (folder / "gone" / "recording.json").exists()


def recorder_of(name: str, parent: int) -> int:
    """The process that records a cluster; 0 if there is none at the moment."""
    for task in Path(f"/proc/{parent}/task").iterdir():
        for child in (task / "children").read_text().split():
            command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if b"--only" in command and command[command.index(b"--only") + 1] == name.encode():
                return int(child)
    return 0


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_every_recording_is_a_context_of_one_file(rewound: Rewound, tmp_path: Path) -> None:
    folder, log, port = tmp_path / "all", tmp_path / "log", free_ports(3)
    both = [f"--cluster={name}={rewound.kubeconfig}" for name in ("blue", "green")]
    command = [sys.executable, "-m", "rewound", "flight", *both, "--kinds=configmaps"]
    command += ["--secure-port", str(port), "--", str(folder)]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        file = folder / "kubeconfig"
        eventually(lambda: len(yaml.safe_load(file.read_text())["contexts"]) == 2, log, process)
        assert file.stat().st_mode & 0o777 == 0o600
        found = yaml.safe_load(file.read_text())
        assert found["current-context"] == "blue"
        servers = [one["cluster"]["server"] for one in found["clusters"]]
        assert servers == [f"https://127.0.0.1:{port + 1}", f"https://127.0.0.1:{port + 2}"]
        flags = ["--kubeconfig", str(file), "--context", "green", "--limit", "1", "-o", "json"]

        def log_of_green() -> bool:
            listed = subprocess.run(
                [sys.executable, "-m", "rewound", "log", *flags], capture_output=True, timeout=60
            )
            lines = listed.stdout.splitlines()  # none before the first event
            return listed.returncode == 0 and bool(lines) and "version" in json.loads(lines[0])

        eventually(log_of_green, log, process)
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
        text = log.read_text()
        assert "[green]" in text and "Traceback" not in text
    finally:
        process.kill()
        process.wait(30)
