"""The scheduler's explanations: the annotation of a pod that asks for one, and `rewound why` on a data folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rewound.actors.messages import Object
from rewound.actors.scheduler.explanation import ANSWERED, ASKED
from rewound.actors.versions.features import choose_release
from tests.actors.scheduler.scheduling import add_nodes, assigned, node, open_scheduling, pod
from tests.client.command import runner


def asking(name: str, cpu: str, **spec: object) -> Object:
    made = pod(name, cpu=cpu, **spec)
    made["metadata"]["annotations"] = {ASKED: "true"}
    return made


async def story(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """A small cluster; returns the nodes of the pods, and the explanations of those that asked."""
    async with open_scheduling(path) as bench:
        tainted = node("c", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
        await add_nodes(bench, node("a", cpu="2"), node("b", cpu="8"), tainted)
        await bench.create("pods", pod("first", cpu="1", nodeSelector={"kubernetes.io/hostname": "a"}))
        await bench.rest()
        await bench.create("pods", asking("second", "1"))
        await bench.create("pods", asking("third", "10"))
        await bench.create("pods", pod("foreign", schedulerName="other"))
        await bench.rest()
        found = {one["metadata"]["name"]: one["metadata"].get("annotations", {}) for one in bench.all("pods")}
        answers = {
            name: annotations[ANSWERED] for name, annotations in found.items() if ANSWERED in annotations
        }
        return assigned(bench), answers


async def test_a_pod_that_asks_gets_an_explanation(tmp_path: Path, autojump_clock: object) -> None:
    nodes, answers = await story(tmp_path)
    assert nodes == {"first": "a", "second": "b", "third": "", "foreign": ""}
    assert sorted(answers) == ["second", "third"]
    second, third = json.loads(answers["second"]), json.loads(answers["third"])
    assert second["node"] == "b"
    assert [one["node"] for one in second["scores"]] == ["b", "a"]
    best = second["scores"][0]
    assert best["total"] == sum(best["plugins"].values())
    assert best["plugins"]["TaintToleration"] == 300
    taint = "node(s) had untolerated taint {k: v}"
    assert second["filtered"] == [{"plugin": "TaintToleration", "reason": taint, "count": 1, "nodes": ["c"]}]
    assert third["scores"] == []
    assert third["message"] == f"0/3 nodes are available: 1 {taint}, 2 Insufficient cpu."


async def test_why_explains_from_a_folder(
    tmp_path: Path,
    autojump_clock: object,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, answers = await story(tmp_path / "data")
    run = runner(tmp_path, capsys, monkeypatch)
    folder = ("--data-dir", tmp_path / "data")
    then = json.loads(run("why", "pod/second", *folder, "-o", "json").out)
    assert then == json.loads(answers["second"])
    text = run("why", "third", *folder).out.splitlines()
    assert text[0] == "pod default/third: 0 of 3 nodes fit"
    assert text[3] == "      2  NodeResourcesFit: Insufficient cpu (a, b)"
    table = run("why", "second", *folder).out.splitlines()
    assert table[0] == "pod default/second: assigned to b; 2 of 3 nodes fit"
    assert table[1].startswith(
        "  b won with 685 points, 88 more than a: its free resources suit the pod better (NodeResourcesFit +45), "
    )
    assert table[6].split()[:2] == ["*", "b"]
    foreign = run("why", "foreign", *folder)
    assert (foreign.code, "--scheduler-config" in foreign.err) == (1, True)
    assert run("why", "nobody", *folder).code == 1


async def test_why_tells_the_story_of_claims(
    tmp_path: Path,
    autojump_clock: object,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = "resource.k8s.io"
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    async with open_scheduling(tmp_path / "data", release=choose_release("1.36")) as bench:
        await add_nodes(bench, node("a"), node("b"))
        await bench.create(f"deviceclasses.{group}", {"metadata": {"name": "gpu"}, "spec": {}})
        pool = {"name": "b", "generation": 1, "resourceSliceCount": 1}
        spec = {"nodeName": "b", "driver": "gpu.example.com", "pool": pool, "devices": [{"name": "gpu-0"}]}
        await bench.create(f"resourceslices.{group}", {"metadata": {"name": "b-gpus"}, "spec": spec})
        for name in ("first", "second"):
            claim = {"metadata": {"name": f"for-{name}"}, "spec": {"devices": {"requests": requests}}}
            await bench.create(f"resourceclaims.{group}", claim)
            claims = [{"name": "gpu", "resourceClaimName": f"for-{name}"}]
            await bench.create("pods", pod(name, cpu="1", resourceClaims=claims))
            await bench.rest(2)
        assert assigned(bench) == {"first": "b", "second": ""}
    run = runner(tmp_path, capsys, monkeypatch)
    folder = ("--data-dir", tmp_path / "data")
    device = {"request": "gpu", "driver": "gpu.example.com", "pool": "b", "device": "gpu-0"}
    first = json.loads(run("why", "first", *folder, "-o", "json").out)
    assert first["claims"] == [
        {"claim": "for-first", "isAllocated": False, "devices": [device], "reservedFor": []}
    ]
    assert [one["node"] for one in first["scores"]] == ["b"]
    assert "  for-first: gets gpu.example.com/b/gpu-0 (gpu)" in run("why", "first", *folder).out.splitlines()
    second = run("why", "second", *folder).out.splitlines()
    assert second[1] == "  0/2 nodes are available: 2 cannot allocate all claims."
    assert "  for-second: is not allocated" in second
    assert "      2  DynamicResources: cannot allocate all claims (a, b)" in second
    now = run("why", "first", *folder, "--at", "now").out.splitlines()
    assert now[0] == "pod default/first: assigned to b; 1 of 2 nodes fit"
