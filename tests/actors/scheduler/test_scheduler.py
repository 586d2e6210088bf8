"""The scheduler as a story: pods get nodes, wait, and are tried again when something changes that helps."""

from __future__ import annotations

from pathlib import Path

from tests.actors.scheduler.scheduling import add_nodes, assigned, end, node, open_scheduling, pod, refusal


async def test_pods_get_nodes_in_turn(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await add_nodes(bench, node("a"), node("b"))
        for name in ("one", "two", "three", "four"):
            await bench.create("pods", pod(name, cpu="1"))
            await bench.rest()
        assert sorted(assigned(bench).values()) == ["a", "a", "b", "b"]
        assert bench.events("one") == [
            ("Scheduled", f"Successfully assigned default/one to {assigned(bench)['one']}")
        ]
        event = bench.all("events")[0]
        assert event["reportingComponent"] == "default-scheduler"
        assert event["action"] == "Binding"
        conditions = bench.get("pods", "one")["status"]["conditions"]
        assert [(one["type"], one["status"]) for one in conditions] == [("PodScheduled", "True")]


async def test_a_pod_waits_until_there_is_room(tmp_path: Path, autojump_clock: object) -> None:
    async with open_scheduling(tmp_path) as bench:
        await bench.create("pods", pod("early"))
        await bench.rest()
        assert refusal(bench, "early") == "no nodes available to schedule pods"
        await add_nodes(bench, node("a", cpu="2"))
        await bench.rest(2)
        assert assigned(bench) == {"early": "a"}
        await bench.create("pods", pod("one", cpu="2"))
        await bench.create("pods", pod("two", cpu="1"))
        await bench.rest()
        assert assigned(bench) == {"early": "a", "one": "a", "two": ""}
        assert refusal(bench, "two") == (
            "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod."
        )
        await end(bench, "one")
        await bench.rest(10)
        assert assigned(bench) == {"early": "a", "two": "a"}
