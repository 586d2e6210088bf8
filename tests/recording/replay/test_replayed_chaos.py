"""A replay of a journal with chaos repeats its faults: as they were written, or by the Chaos objects of the copy."""

from __future__ import annotations

import shutil
from pathlib import Path

from rewound.gateway.settings.settings import ControllerSettings
from rewound.recording.replay.player import FULL_SPEED, Moment
from rewound.recording.replay.replay import Plan
from rewound.recording.replay.writable import WritablePlan
from tests.gateway.api import Api, served
from tests.recording.replay.replaying import forked, replayed
from tests.settling import settled

CHAOS = "/apis/sim.rewound/v1alpha1/chaos"
AUTHOR = "system:serviceaccount:kube-system:chaos"


async def record(folder: Path) -> tuple[int, int, int]:
    """One fault of a node; returns the versions before, during and after it."""
    async with served(dialect="kubernetes", controllers=ControllerSettings(nodes=1)) as api:
        await settled()
        start = int(await api.head())
        chaos = {
            "apiVersion": "sim.rewound/v1alpha1",
            "kind": "Chaos",
            "metadata": {"name": "day"},
            "spec": {"faults": [{"stopNodes": {}}]},
        }
        (await api.ask("POST", CHAOS, chaos)).expect(201)
        await settled()
        during = int(await api.head())
        (await api.ask("DELETE", f"{CHAOS}/day")).expect(200)
        await settled()
        end = int(await api.head())
        await api.finish()
        shutil.copytree(api.settings.data_dir, folder, dirs_exist_ok=True)
    return start, during, end


async def is_stopped(api: Api, at: int | None = None) -> bool:
    query = {} if at is None else {"at": str(at)}
    node = (await api.ask("GET", "/api/v1/nodes/node-0", **query)).expect(200)
    return "sim/stopped" in node["metadata"]["annotations"]


async def test_faults_show_at_their_moments(tmp_path: Path) -> None:
    start, during, end = await record(tmp_path)
    for version, stopped in ((start, False), (during, True), (end, False)):
        async with replayed(tmp_path, Plan(at=Moment(version, 0))) as replay:
            assert await is_stopped(replay.api) is stopped


async def test_recorded_faults_are_written_again(tmp_path: Path) -> None:
    start, _, end = await record(tmp_path)
    plan = WritablePlan(Moment(start, 0), end, play=True, speed=FULL_SPEED, paused=True)
    async with forked(tmp_path, plan) as api:
        before = int(await api.head())
        await api.play()
        path = "/apis/rewound.cluster.io/v1/nodes/node-0/history"
        items = (await api.ask("GET", path)).expect(200)["items"]
        written = [one["version"] for one in items if one["user"] == AUTHOR and int(one["version"]) > before]
        assert [await is_stopped(api, int(version)) for version in sorted(written, key=int)] == [True, False]
    assert not [one for one in api.compared.skipped if one.event.user == AUTHOR]
