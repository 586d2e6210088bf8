"""The command line beside a running server, and across its restart."""

from __future__ import annotations

import http.client
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from rewound.testing.fixture.rewound import Rewound
from tests.gateway.journal_commands import run_journal
from tests.gateway.processes import heed_ctrl_c
from tests.no_progress import COMMAND
from tests.robustness.cluster import LOOPBACK, TOKEN, Cluster

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        cluster.start()
        yield cluster


def call(cluster: Cluster, method: str, path: str, body: Any = None, agent: str = "tests/1") -> Any:
    connection = http.client.HTTPConnection(LOOPBACK, cluster.port, timeout=60)
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
        "User-Agent": agent,
    }
    connection.request(method, path, orjson.dumps(body) if body is not None else None, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    assert answer.status < 300, content
    return orjson.loads(content)


def config_map(color: str) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "data": {"color": color}}


def test_follow_continues_across_a_restart(cluster: Cluster) -> None:
    data = cluster.folder / "data"
    words = ["journal", "log", "-f", "--kind=cm", "-o", "json", f"--data-dir={data}"]
    with subprocess.Popen(
        [*COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_ctrl_c,
    ) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        call(cluster, "POST", MAPS, config_map("blue"), agent="kubectl/v1.25")
        made = orjson.loads(following.stdout.readline())
        assert (made["user"], made["verb"], made["manager"]) == ("robustness", "create", "kubectl")
        call(cluster, "PUT", f"{MAPS}/web", config_map("red"))
        changed = orjson.loads(following.stdout.readline())
        assert changed["changes"] == [{"path": "data.color", "before": "blue", "after": "red"}]
        cluster.signal(signal.SIGTERM)
        assert cluster.ended() == 0
        cluster.start()
        call(cluster, "DELETE", f"{MAPS}/web")
        assert orjson.loads(following.stdout.readline())["removed"] is True
        following.send_signal(signal.SIGINT)
        assert following.stderr.read() == b""
        assert following.wait(60) == 0


def test_closed_pipe_ends_following(rewound: Rewound) -> None:
    words = ["journal", "log", "-f", f"--data-dir={rewound.data_dir}"]
    following = subprocess.Popen(
        [*COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert following.stdout is not None
    assert following.stderr is not None
    following.stdout.readline()
    following.stdout.close()
    rewound.request("POST", MAPS, config_map("blue"))
    assert following.stderr.read() == b""
    assert following.wait(60) == 141
    following.stderr.close()


@pytest.mark.rewound(fresh=True)  # a used server has the history of other tests
def test_commands_agree_with_the_server(rewound: Rewound, tmp_path: Path) -> None:
    data = f"--data-dir={rewound.data_dir}"
    old = rewound.request("POST", MAPS, config_map("blue"))["metadata"]["resourceVersion"]
    rewound.request("PUT", f"{MAPS}/web", config_map("red"))
    served = rewound.request("GET", f"/api/v1/configmaps?resourceVersion={old}&resourceVersionMatch=Exact")
    listed = run_journal("state", f"--at={old}", "--kind=cm", "-o", "json", data).document
    bare = [{k: v for k, v in item.items() if k not in ("kind", "apiVersion")} for item in listed["items"]]
    assert bare == served["items"]
    current = rewound.request("GET", f"{MAPS}/web")
    history = run_journal("history", "cm", "default/web", "-o", "json", data).document["items"]
    # The journal also has the objects of this name of tests that used the server before.
    assert [version["verb"] for version in history[:2]] == ["update", "create"]
    newest = run_journal("show", history[0]["version"], "-o", "json", data).document
    assert newest["object"] == current
    assert run_journal("diff", old, "--kind=cm", "-o", "json", data).document["changed"][0]["changes"] == [
        {"path": "data.color", "before": "blue", "after": "red"}
    ]
    assert run_journal("verify", data).lines[-1] == "sound"
    head = run_journal("stats", "-o", "json", data).document["head"]
    assert run_journal("export", tmp_path / "x.gz", data).code == 0
    assert run_journal("import", tmp_path / "x.gz", f"--data-dir={tmp_path / 'copy'}").code == 0
    copied = run_journal("log", "-o", "json", f"--data-dir={tmp_path / 'copy'}")
    assert copied.out == run_journal("log", "-o", "json", f"--until={head}", data).out
    # All of that happened while the server was running.
    rewound.request("DELETE", f"{MAPS}/web")


def test_server_serves_an_imported_journal(rewound: Rewound, tmp_path: Path) -> None:
    made = rewound.request("POST", MAPS, config_map("blue"))
    assert run_journal("export", tmp_path / "x", f"--data-dir={rewound.data_dir}").code == 0
    other = tmp_path / "other"
    other.mkdir()
    assert run_journal("import", tmp_path / "x", f"--data-dir={other / 'data'}").code == 0
    with Cluster(other) as second:
        second.start()
        assert call(second, "GET", f"{MAPS}/web") == made
        newer = call(second, "PUT", f"{MAPS}/web", config_map("red"))
        assert int(newer["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert run_journal("verify", f"--data-dir={other / 'data'}").lines[-1] == "sound"
