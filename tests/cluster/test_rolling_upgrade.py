"""Nodes on etcd, and a leader with its standby, are upgraded one after the other from an earlier release.

The earlier release is a commit of this repository; `tests/journal/test_formats_of_releases.py` has the short form:
what the releases before stored and sent.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.etcd_members import needs_etcd
from tests.local_cluster import TOKEN, NodeProcess, local_cluster

# The last release, and a commit before it, whose servers stored fewer kinds.
EARLIER = ("c2fe7f41", "6a072c23")
ROOT = Path(__file__).parent.parent.parent
MAPS = "/api/v1/namespaces/default/configmaps"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=EARLIER)
def earlier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the earlier release."""
    folder = tmp_path_factory.mktemp("earlier")
    archive = folder / "release.tar"
    command = [
        "git",
        "-C",
        ROOT,
        "archive",
        "--output",
        archive,
        request.param,
        "rewound",
        "actors",
        "gateway",
        "journal",
    ]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if made.returncode:
        pytest.skip(f"this clone has no commit {request.param}: {made.stderr.strip()}")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="tar")
    return folder


@needs_etcd
def test_nodes_are_upgraded_one_after_the_other(earlier: Path) -> None:
    with local_cluster(release=earlier) as cluster:
        written: list[str] = []
        for round_, node in enumerate((None, *cluster.nodes)):
            if node is not None:
                node.stop()
                create(cluster.nodes[round_ % 3], f"without-{node.name}")
                written.append(f"without-{node.name}")
                node.release = None
                node.start()
                node.wait_ready()
            for one in cluster.nodes:
                written.append(f"round-{round_}-{one.name}")
                create(one, written[-1])
            for one in cluster.nodes:
                assert names(one) == sorted(written)


def test_standby_is_upgraded_before_its_leader(earlier: Path, pair: tuple[NodeProcess, NodeProcess]) -> None:
    leader, standby = pair
    for one in pair:
        one.release = earlier
        one.start()
        one.wait_ready()
    create(leader, "first")
    reaches(standby, ["first"])
    standby.stop()
    create(leader, "second")
    standby.release = None
    standby.start()
    standby.wait_ready()
    reaches(standby, ["first", "second"])
    leader.stop()
    leader.release = None
    leader.start()
    leader.wait_ready()
    create(leader, "third")
    reaches(standby, ["first", "second", "third"])


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[NodeProcess, NodeProcess]]:
    (tmp_path / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
    (tmp_path / "token").write_text(TOKEN)
    common = ("--token-auth-file", str(tmp_path / "tokens.csv"))
    leader = NodeProcess("leader", tmp_path, "", common, steps_clock=False)
    follow = ("--follow", f"http://127.0.0.1:{leader.port}", "--follow-token-file", str(tmp_path / "token"))
    standby = NodeProcess("standby", tmp_path, "", (*common, *follow), steps_clock=False)
    yield leader, standby
    standby.stop()
    leader.stop()


def create(node: NodeProcess, name: str) -> None:
    request(node, {"metadata": {"name": name}})


def names(node: NodeProcess) -> list[str]:
    found = (one["metadata"]["name"] for one in request(node)["items"])
    return sorted(name for name in found if name != "kube-root-ca.crt" and not name.endswith("root-ca"))


def _names_if_it_serves(node: NodeProcess) -> list[str]:
    try:
        return names(node)
    except OSError:
        return []


def reaches(standby: NodeProcess, expected: list[str]) -> None:
    """Wait until it has these. It serves nothing for a moment when its leader has another version of Kubernetes."""
    deadline = time.monotonic() + 60
    while standby.running and _names_if_it_serves(standby) != expected:
        assert time.monotonic() < deadline, standby.log.read_text()[-2000:]
        time.sleep(0.1)
    assert standby.running, standby.log.read_text()[-2000:]


def request(node: NodeProcess, body: object = None) -> dict[str, list[dict[str, dict[str, str]]]]:
    made = urllib.request.Request(
        f"http://127.0.0.1:{node.port}{MAPS}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(made, timeout=60) as response:
        found: dict[str, list[dict[str, dict[str, str]]]] = json.loads(response.read())
    return found
