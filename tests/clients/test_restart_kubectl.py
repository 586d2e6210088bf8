"""kubectl over HTTP/2 through a restart of the server: what ends, what resumes, what continues without help."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from tests.clients.program import Program, program
from tests.clients.restartable import COLLECTION, Event, RestartableServer, restartable

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
# One line an event: resourceVersion, type, name and text.
FORMAT = r'{.object.metadata.resourceVersion} {.type} {.object.metadata.name} {.object.data.text}{"\n"}'
WATCH = ("get", "configmaps", "--watch", "--output-watch-events", "-o", f"jsonpath={FORMAT}")

Run = Callable[..., AbstractAsyncContextManager[Program]]


async def test_kubectl_through_a_restart(kubectl: str, tmp_path: Path) -> None:
    """`get --watch` ends with the server; `rollout status`, which uses an informer, continues."""
    async with restartable(tmp_path) as server:
        run = partial(run_kubectl, kubectl, server, tmp_path)
        await create_deployment(server)
        await report_available(server, 1)
        async with run(*WATCH) as watch, run("rollout", "status", "deployment/web") as rollout:
            await server.create("listed")
            await watch.until(lambda lines: len(lines) == 1)
            await rollout.until(lambda lines: waiting_for(1) in lines)
            await server.write("a", "b", "c")
            await watch.until(lambda lines: len(lines) > 1)
            await server.restart()
            await watch_ended(watch)
            async with resumed(run, watch) as other:
                await server.write("d", "e", "last")
                await other.until(lambda lines: server.events[-1] in map(raw_event, lines))
            await rollout_ends(server, rollout)
        assert [*map(printed_event, watch.lines), *map(raw_event, other.lines)] == server.events
        assert all(used_http2(client) for client in (watch, other, rollout))


def run_kubectl(
    kubectl: str, server: RestartableServer, home: Path, *arguments: str
) -> AbstractAsyncContextManager[Program]:
    """GODEBUG makes the Go library print the HTTP/2 frames that it sends and receives."""
    environment = {"KUBECONFIG": str(server.kubeconfig), "HOME": str(home), "GODEBUG": "http2debug=1"}
    return program([kubectl, *arguments], environment)


def used_http2(client: Program) -> bool:
    return "http2: Transport received HEADERS" in client.errors


# The watch.


async def watch_ended(watch: Program) -> None:
    """kubectl prints a message and ends with 0 too when a watch breaks off."""
    assert await watch.ended() == 0
    assert "Unable to decode" not in watch.errors


def resumed(run: Run, watch: Program) -> AbstractAsyncContextManager[Program]:
    """Watch from the last version that an ended watch has printed."""
    version = watch.lines[-1].split()[0]
    return run("get", "--raw", f"{COLLECTION}?watch=true&resourceVersion={version}")


def printed_event(line: str) -> Event:
    _, kind, name, text = line.split()
    return kind, name, text


def raw_event(line: str) -> Event:
    event = json.loads(line)
    return event["type"], event["object"]["metadata"]["name"], event["object"]["data"]["text"]


# The rollout.


async def create_deployment(server: RestartableServer) -> None:
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": pod}
    created = await server.client.post(DEPLOYMENTS, json={"metadata": {"name": "web"}, "spec": spec})
    assert created.status_code == 201, created.text


async def report_available(server: RestartableServer, pods: int) -> None:
    """Do what the deployment controller does: write the status."""
    counts = {"replicas": 3, "updatedReplicas": 3, "readyReplicas": pods, "availableReplicas": pods}
    patched = await server.client.patch(
        f"{DEPLOYMENTS}/web/status",
        json={"status": {"observedGeneration": 1, **counts}},
        headers={"content-type": "application/merge-patch+json"},
    )
    assert patched.status_code == 200, patched.text


def waiting_for(pods: int) -> str:
    return f'Waiting for deployment "web" rollout to finish: {pods} of 3 updated replicas are available...'


async def rollout_ends(server: RestartableServer, rollout: Program) -> None:
    await report_available(server, 2)
    await rollout.until(lambda lines: waiting_for(2) in lines)
    await report_available(server, 3)
    assert await rollout.ended() == 0
    assert rollout.lines[-1] == 'deployment "web" successfully rolled out'
