"""The example of docs/replay.md: a fight over a field is observed, reproduced in a replay, fixed, and the fix is
proven.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import trio

from rewound.recording.replay.comparison import report
from rewound.recording.replay.player import FULL_SPEED, Moment
from rewound.recording.replay.replay import Plan
from rewound.recording.replay.writable import WritablePlan
from tests.gateway.api import Api
from tests.recording.replay.replaying import ForkApi, forked, recorded, replayed

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "fight.py"
ROUNDS = 4


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fight", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def deployment() -> dict[str, Any]:
    container = {"name": "web", "image": "web:1"}
    return {
        "metadata": {"name": "web", "annotations": {"load": "450"}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }


async def fight(api: Api, *controllers: str) -> int:
    """Run the controllers in turns, each as its own manager; returns how many writes they made."""
    module, writes = load(), 0
    assert api.addresses.insecure is not None
    server = "http://{}:{}".format(*api.addresses.insecure)
    clients = [(module.Client(server, "admin-token", name), module.CONTROLLERS[name]) for name in controllers]
    for _ in range(ROUNDS):
        for client, decide in clients:
            writes += await trio.to_thread.run_sync(module.step, client, decide)
            if not isinstance(api, ForkApi):
                api.clock.advance(1)
    return writes


async def test_fight_is_seen_reproduced_fixed_and_proven(tmp_path: Path) -> None:
    async with recorded(tmp_path) as api:
        await api.create("deployments", deployment())
        assert await fight(api, "deployer", "scaler") == 2 * ROUNDS
        path = "/apis/rewound.cluster.io/v1/namespaces/default/deployments.apps/web/"
        fields = (await api.ask("GET", f"{path}blame")).expect(200)["fields"]
        (replicas,) = (one for one in fields if one["field"] == "spec.replicas")
        assert (replicas["fieldManager"], replicas["value"]) == ("scaler", 5)
        versions = (await api.ask("GET", f"{path}history")).expect(200)["items"]
        assert {one["fieldManager"] for one in versions[:4]} == {"scaler", "deployer"}

    until = 'event.resource == "deployments" && event.manager == "scaler"'
    async with replayed(tmp_path, Plan(Moment(1, 0), speed=FULL_SPEED, until=until, play=True)) as replay:
        before = int((await replay.stopped())["version"]) - 1
        end = replay.recording.end

    async with forked(tmp_path, WritablePlan(Moment(before, 0), end)) as api:
        assert await fight(api, "scaler", "deployer") == 2 * ROUNDS  # it is not chance
    async with forked(tmp_path, WritablePlan(Moment(before, 0), end)) as api:
        assert await fight(api, "scaler", "fixed-deployer") == 1
    assert len(api.compared.objects) == 1
    assert api.compared.same  # it ends as the last write of the fight left it
    text = report(api.compared)
    assert f"recorded  {2 * ROUNDS - 1} writes by admin with scaler, admin with deployer" in text[1]
    assert "here      1 write by admin with scaler" in text[2]


async def test_controllers_run_until_they_have_written(tmp_path: Path) -> None:
    async with recorded(tmp_path) as api:
        await api.create("deployments", deployment())
        assert api.addresses.insecure is not None
        server = "http://{}:{}".format(*api.addresses.insecure)
        given = ["scaler", "--server", server, "--token", "admin-token", "--writes", "1"]
        await trio.to_thread.run_sync(partial(load().main, given))
        assert (await api.get("deployments", "web"))["spec"]["replicas"] == 5
