"""kubectl with a cluster of simulated nodes: rollouts, scaling, draining and inspecting."""

from __future__ import annotations

import json
from pathlib import Path

from tests.clients.test_custom_kubectl import Kubectl, words
from tests.gateway.processes import process
from tests.ports import reserve_port

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {
                "labels": {"app": "web"},
                "annotations": {"sim/cpu": "100m", "sim/memory": "64Mi", "sim/log": "hello\n"},
            },
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        },
    },
}
ROLLED_OUT = 'deployment "web" successfully rolled out'
WAIT = "--timeout=60s"


async def test_kubectl_works_with_simulated_nodes(kubectl: str, tmp_path: Path) -> None:
    flags = ("--dialect", "kubernetes", "--secure-port", str(reserve_port()), "--nodes", "3")
    async with process(tmp_path, *flags):
        run = Kubectl(kubectl, tmp_path / "data" / "admin.kubeconfig", tmp_path)
        await run("wait", "--for=condition=Ready", "nodes", "--all", WAIT)
        await rolls_out(run)
        await scales(run)
        await looks(run)
        await drains(run)


async def rolls_out(run: Kubectl) -> None:
    await run("create", "-f", run.write("web.json", DEPLOYMENT))
    assert ROLLED_OUT in await run("rollout", "status", "deployment/web", WAIT)
    assert [line[1:3] for line in words(await run("get", "pods"))[1:]] == [["1/1", "Running"]] * 3
    await run("set", "image", "deployment/web", "web=web:2")
    assert ROLLED_OUT in await run("rollout", "status", "deployment/web", WAIT)
    history = words(await run("rollout", "history", "deployment/web"))
    assert [line[0] for line in history if line and line[0].isdigit()] == ["1", "2"]
    await run("rollout", "undo", "deployment/web")
    assert ROLLED_OUT in await run("rollout", "status", "deployment/web", WAIT)
    assert "web:1" in await run("get", "deployment", "web", "-o", "wide")
    await run("rollout", "restart", "deployment/web")
    assert ROLLED_OUT in await run("rollout", "status", "deployment/web", WAIT)


async def scales(run: Kubectl) -> None:
    await run("scale", "deployment/web", "--replicas=5")
    await run("wait", "--for=condition=Available", "deployment/web", WAIT)
    assert ROLLED_OUT in await run("rollout", "status", "deployment/web", WAIT)
    await run("autoscale", "deployment/web", "--min=2", "--max=6", "--cpu-percent=80")
    assert "Deployment/web" in await run("get", "hpa", "web")
    await run("delete", "hpa", "web")


async def looks(run: Kubectl) -> None:
    assert {line[1] for line in words(await run("top", "pods"))[1:]} == {"100m"}
    assert len(words(await run("top", "nodes"))) == 4
    assert await run("logs", "deployment/web") == "hello\n"
    assert "is simulated" in await run.refused("exec", "deployment/web", "--", "true")
    events = await run("get", "events")
    for reason in ("ScalingReplicaSet", "SuccessfulCreate", "Scheduled"):
        assert reason in events


async def drains(run: Kubectl) -> None:
    await run("cordon", "node-0")
    assert "SchedulingDisabled" in await run("get", "node", "node-0")
    await run("drain", "node-1", "--ignore-daemonsets", WAIT)
    assert ROLLED_OUT in await run("rollout", "status", "deployment/web", WAIT)
    pods = json.loads(await run("get", "pods", "-o", "json"))["items"]
    running = [one["spec"]["nodeName"] for one in pods if "deletionTimestamp" not in one["metadata"]]
    assert len(running) == 5 and "node-1" not in running
    await run("uncordon", "node-0", "node-1")
    await run("delete", "deployment", "web")
