"""A recorded server of another release has kinds that this one lacks, in group versions that both have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.gateway.api import served
from tests.recording.record.test_hostile_servers import run_recorder
from tests.recording.replay.replaying import replayed

ROLLOUTS = "/apis/apps/v1/namespaces/default/rollouts"
VERBS = ["create", "delete", "get", "list", "watch"]
ROLLOUT = {
    "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "5"},
    "spec": {"steps": [{"weight": 20}]},
    "status": {"step": 1},
}


def apps_v1(*items: Any) -> dict[str, Any]:
    """Documents of a server whose group apps/v1 has Rollouts."""
    names = {"name": "rollouts", "singularName": "rollout", "kind": "Rollout", "shortNames": ["ro"]}
    groups = [
        {"name": name, "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}
        for name in ("authentication.k8s.io", "apps")
    ]
    return {
        "/apis": {"groups": groups},
        "/version": {"gitVersion": "v1.25.16"},
        "/apis/apps/v1": {"resources": [{**names, "namespaced": True, "verbs": VERBS}]},
        "/apis/apps/v1/rollouts": {"metadata": {"resourceVersion": "7"}, "items": list(items)},
    }


async def test_replay_serves_kinds_that_this_release_lacks(tmp_path: Path, autojump_clock: object) -> None:
    await run_recorder(apps_v1(ROLLOUT), tmp_path / "out")
    async with replayed(tmp_path / "out") as replay:
        found = (await replay.api.ask("GET", ROLLOUTS)).expect(200)
        assert [one["metadata"]["name"] for one in found["items"]] == ["web"]
        (served_one,) = found["items"]
        assert {"spec": served_one["spec"], "status": served_one["status"]} == {
            "spec": ROLLOUT["spec"],
            "status": ROLLOUT["status"],
        }
        listed = (await replay.api.ask("GET", "/apis/apps/v1")).expect(200)["resources"]
        of_both = {one["name"]: one["kind"] for one in listed}
        assert of_both["rollouts"] == "Rollout"
        assert of_both["deployments"] == "Deployment"
        document = (await replay.api.ask("GET", "/openapi/v3/apis/apps/v1")).expect(200)
        assert "/apis/apps/v1/namespaces/{namespace}/rollouts/{name}" in document["paths"]
        assert "/apis/apps/v1/namespaces/{namespace}/deployments/{name}" in document["paths"]


async def test_an_ordinary_server_serves_them_too(tmp_path: Path, autojump_clock: object) -> None:
    await run_recorder(apps_v1(ROLLOUT), tmp_path / "data")
    async with served(tmp_path, dialect="kubernetes") as api:
        body = {"apiVersion": "apps/v1", "kind": "Rollout", "metadata": {"name": "other"}, "spec": {"a": 1}}
        made = (await api.ask("POST", ROLLOUTS, body)).expect(201)
        assert made["spec"] == {"a": 1}
        found = (await api.ask("GET", ROLLOUTS)).expect(200)
        assert [one["metadata"]["name"] for one in found["items"]] == ["other", "web"]
