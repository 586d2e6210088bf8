"""The tools behind docs/scaling.md: filled journals are sound, figures are complete, stale reads are found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.loads.client import Client
from benchmarks.scale.__main__ import main
from benchmarks.scale.filled_journal import fill
from benchmarks.scale.light_load import Creates, Deliveries, Load, Repeated
from benchmarks.scale.read_after_write import (
    Connections,
    Driver,
    Objects,
    Result,
    Rights,
    check,
    user_endpoints,
    user_lines,
)
from benchmarks.servers.server_process import ServerProcess
from rewound.journal.log import Journal
from rewound.journal.repair.verify import verify

USERS = ["reader-1", "reader-2"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path_factory.mktemp("server"), users=user_lines(USERS))
    yield process
    process.stop()


def test_filled_journal_is_sound_and_has_all_objects(tmp_path: Path) -> None:
    filling, sizes = fill(tmp_path, 1000, updates=0.5)
    assert (filling.objects, filling.events) == (1000, 1500)
    assert sizes["collections"]["pods"] == 400
    journal = Journal.open(tmp_path / "data" / "journal", readonly=True)
    try:
        with journal.read() as view:
            assert verify(view).differences == []
            pods = journal.type_id("pods")
            assert view.count(pods) == 401
            row = view.get(pods, "scale-007", "pods-000000107")
            assert row is not None
            pod = json.loads(row.body)
            assert pod["metadata"]["resourceVersion"] == str(row.offset)
            [owner] = pod["metadata"]["ownerReferences"]
            type_id = journal.type_id("replicasets.apps")
            found = view.get(type_id, "scale-007", owner["name"])
            assert found is not None and json.loads(found.body)["metadata"]["uid"] == owner["uid"]
            assert view.get(journal.type_id("nodes"), "", pod["spec"]["nodeName"]) is not None
    finally:
        journal.close()


def test_every_read_sees_what_was_acknowledged(server: ServerProcess) -> None:
    """The short version of `python -m benchmarks.scale consistency`."""
    users = user_endpoints(server.plain_endpoint, USERS)
    result = check(server.plain_endpoint, 400, clients=6, users=users)
    assert (result.misses, result.missed) == ([], {})
    assert result.total >= 400
    assert set(result.checks) == {"get", "list", "rights", "kinds"}


def test_reads_that_do_not_see_a_write_are_counted_and_described(server: ServerProcess) -> None:
    """Readers without rights see nothing of what others write; readers with rights see too much."""
    endpoint = server.plain_endpoint
    [nobody, _] = user_endpoints(endpoint, USERS)
    result = Result()
    blind, masters = Connections(endpoint, nobody), Connections(endpoint, endpoint)
    objects = Objects(blind, "default", result).talk()
    rights = Rights(masters, "default", USERS[1], result).talk()
    try:
        Driver(result).run([(blind, objects), (masters, rights)], 40)
    finally:
        blind.close()
        masters.close()
    assert result.missed["list"] == result.checks["list"] > 0
    assert result.missed["get"] == result.checks["get"] > 0
    assert 0 < result.missed["rights"] <= result.checks["rights"]
    assert "list after o-0=0: 403" in result.misses[0]


def test_light_loads_count_what_the_server_did(server: ServerProcess) -> None:
    endpoint, path = server.plain_endpoint, "/api/v1/namespaces/default/configmaps"
    with Client(endpoint) as client:
        made = client.expect("POST", path, {"metadata": {"name": "light"}, "data": {"seal": "^"}})
    watch = f"{path}?watch=1&resourceVersion={made['metadata']['resourceVersion']}&labelSelector=a%3Db"
    patch = b'{"metadata":{"labels":{"a":"b"},"annotations":{"number":"NUMBER"}}}'
    loads: tuple[Load, ...] = (
        Repeated(endpoint, f"{path}/light", 3),
        Creates(endpoint, path, 3),
        Deliveries(endpoint, f"{path}/light", [watch] * 5, patch),
    )
    for load in loads:
        done = load.round(0.02)
        load.close()
        assert done.operations >= 3
        assert 0 < done.busiest_cpu <= done.server_cpu
    with Client(endpoint) as client:
        names = [each["metadata"]["name"] for each in client.expect("GET", path)["items"]]
        assert len([name for name in names if name.startswith("c-")]) >= 3


@pytest.mark.slow
def test_tools_measure_and_store_their_figures(tmp_path: Path) -> None:
    scratch, file = tmp_path / "scratch", tmp_path / "scale.json"
    scratch.mkdir()
    common = ["--scratch", str(scratch), "--save", str(file), "--seconds", "0.1"]
    assert main(["objects", "--count", "1000", *common]) == 0
    assert main(["watchers", "--count", "60", *common]) == 0
    assert main(["consistency", "--checks", "500", *common]) == 0
    found = json.loads(file.read_text())
    objects = found["objects"]["results"]["1000"]
    for name in ("get_us", "create_us", "append_us", "list_all_cpu_s", "node_pods_us", "watch_start_us"):
        assert objects[name] > 0, name
    assert objects["node_pods"] == 40
    watchers = found["watchers"]["results"]
    assert set(watchers) == {"plain-60-1", "tls-60-1", "own-60-1"}
    assert watchers["tls-60-1"]["delivery_us"] > 0
    assert found["consistency"]["results"]["1"]["missed"] == {}
    assert list(scratch.iterdir()) == [], "left behind"
