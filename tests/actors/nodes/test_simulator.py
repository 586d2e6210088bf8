"""Simulated nodes register, renew their leases and run the pods that are bound to them."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Command, Object, Outcome, Replace
from tests.actors.controllers.control_plane import START, ControlPlane, open_control_plane
from tests.actors.nodes.simulated_cluster import LEASES, bound_to, running, simulated, simulated_cluster


def conditions(stored: Object | None) -> dict[str, str]:
    assert stored is not None
    return {one["type"]: one["status"] for one in stored["status"].get("conditions") or ()}


def phase(cluster: ControlPlane, pod: str) -> str:
    found = cluster.get("pods", pod)
    return "" if found is None else found["status"]["phase"]


def recorded(cluster: ControlPlane, *reasons: str) -> list[Object]:
    """The Events with these reasons, or all."""
    events = [cluster.get("events", name) for name in cluster.names("events")]
    return [one for one in events if one is not None and (not reasons or one["reason"] in reasons)]


async def annotate(cluster: ControlPlane, type_name: str, name: str, **annotations: str | None) -> None:
    definition = cluster.catalog.storage(type_name)
    changed = {f"sim/{key.replace('_', '-')}": value for key, value in annotations.items()}
    namespace = "default" if definition.namespaced else ""
    await cluster.client.patch(definition, namespace, name, {"metadata": {"annotations": changed}})
    await cluster.wait_until_idle()


async def test_nodes_are_created_ready_and_written_by_themselves(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with simulated_cluster(tmp_path, nodes=2) as cluster:
        assert cluster.names("nodes", None) == ["node-0", "node-1"]
        node = cluster.get("nodes", "node-0")
        assert conditions(node) == {
            "MemoryPressure": "False",
            "DiskPressure": "False",
            "PIDPressure": "False",
            "Ready": "True",
        }
        assert node is not None and node["status"]["allocatable"]["pods"] == "110"
        assert {event.user for event in cluster.events("nodes", "node-0")} == {"system:node:node-0"}


async def test_leases_are_renewed_every_ten_seconds_until_the_node_stops(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    def renewed() -> list[str]:
        with cluster.journal.read() as view:
            events = view.events(0, type_id=cluster.journal.type_id(LEASES))
            return [event.name for event in events]

    async with simulated_cluster(tmp_path, nodes=2) as cluster:
        assert sorted(renewed()) == ["node-0", "node-1"]
        await cluster.wait_until_idle(10)
        assert sorted(renewed()) == ["node-0"] * 2 + ["node-1"] * 2
        await annotate(cluster, "nodes", "node-1", stopped="true")
        await cluster.wait_until_idle(100)
        assert renewed().count("node-0") == 12 and renewed().count("node-1") == 2
        await annotate(cluster, "nodes", "node-1", stopped=None)
        assert renewed().count("node-1") == 3


async def test_pod_runs_and_ends_with_a_second_delete(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        await cluster.create("pods", "p", content=bound_to("node-0"))
        await cluster.wait_until_idle()
        assert phase(cluster, "p") == "Running" and conditions(cluster.get("pods", "p"))["Ready"] == "True"
        before = len(cluster.events("pods", "p"))
        await cluster.wait_until_idle(300)
        assert len(cluster.events("pods", "p")) == before == 2  # at rest nothing is written
        await cluster.delete("pods", "p")
        await cluster.wait_until_idle()
        assert cluster.get("pods", "p") is None
        assert [event.user for event in cluster.events("pods", "p")][-1] == "system:node:node-0"


async def test_pod_of_a_stopped_node_continues_when_the_node_starts(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        await annotate(cluster, "nodes", "node-0", stopped="true")
        await cluster.create("pods", "p", content=bound_to("node-0"))
        await cluster.wait_until_idle(60)
        assert phase(cluster, "p") == "Pending"
        await annotate(cluster, "nodes", "node-0", stopped=None)
        assert phase(cluster, "p") == "Running"


async def test_node_reports_its_conditions_again_after_it_was_unreachable(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        await annotate(cluster, "nodes", "node-0", stopped="true")
        node = cluster.get("nodes", "node-0")
        assert node is not None
        for condition in node["status"]["conditions"]:
            condition["status"] = "Unknown"
        await cluster.client.replace(cluster.catalog.storage("nodes"), node, "status")
        await cluster.wait_until_idle(20)
        assert conditions(cluster.get("nodes", "node-0"))["Ready"] == "Unknown"
        await annotate(cluster, "nodes", "node-0", stopped=None)
        assert conditions(cluster.get("nodes", "node-0"))["Ready"] == "True"


async def test_condition_that_was_set_by_hand_stays(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        node = cluster.get("nodes", "node-0")
        assert node is not None
        node["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]
        await cluster.client.replace(cluster.catalog.storage("nodes"), node, "status")
        await cluster.wait_until_idle(60)
        found = conditions(cluster.get("nodes", "node-0"))
        assert found["Ready"] == "False" and found["MemoryPressure"] == "False"


async def test_annotations_may_change_while_a_pod_runs(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        await cluster.create("pods", "p", content=bound_to("node-0"), annotations={"sim/ready-after": "30"})
        await cluster.wait_until_idle(29)
        assert conditions(cluster.get("pods", "p"))["Ready"] == "False"
        await cluster.wait_until_idle(1)
        assert conditions(cluster.get("pods", "p"))["Ready"] == "True"
        await annotate(cluster, "pods", "p", phase="CrashLoop")
        assert conditions(cluster.get("pods", "p"))["Ready"] == "False"
        await annotate(cluster, "pods", "p", hold_termination="true")
        await cluster.delete("pods", "p")
        await cluster.wait_until_idle(60)
        assert cluster.is_being_deleted("pods", "p")
        await annotate(cluster, "pods", "p", hold_termination=None)
        assert cluster.get("pods", "p") is None


async def test_wrong_annotation_becomes_an_event(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        await cluster.create("pods", "p", content=bound_to("node-0"), annotations={"sim/run-for": "soon"})
        await cluster.wait_until_idle()
        (event,) = recorded(cluster, "InvalidAnnotation")
        assert event["message"] == "sim/run-for: 'soon' is no number of seconds, such as 2.5"


async def test_annotation_that_becomes_wrong_later_is_an_event_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        await cluster.create("pods", "p", content=bound_to("node-0"))
        await cluster.wait_until_idle()
        await annotate(cluster, "pods", "p", terminate_after="soon")  # nothing about the status changes
        await annotate(cluster, "pods", "p", log="more")
        (event,) = recorded(cluster, "InvalidAnnotation")
        assert event["count"] == 1
        assert event["message"] == "sim/terminate-after: 'soon' is no number of seconds, such as 2.5"


async def test_events_of_containers_are_those_of_a_kubelet(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        await cluster.create("pods", "p", content=bound_to("node-0"))
        await cluster.wait_until_idle()
        await cluster.delete("pods", "p")
        await cluster.wait_until_idle()
        events = recorded(cluster)
        assert sorted(event["reason"] for event in events) == [
            "Created",
            "Killing",
            "Pulled",
            "Pulling",
            "Started",
        ]
        assert {event["involvedObject"]["fieldPath"] for event in events} == {"spec.containers{c}"}
        assert all(event["source"] == {"component": "kubelet", "host": "node-0"} for event in events)


async def test_flag_chooses_the_events_of_nodes(tmp_path: Path, autojump_clock: MockClock) -> None:
    crashing = {"sim/exit-after": "1", "sim/exit-code": "1"}
    for number, (mode, reasons) in enumerate((("none", set()), ("failures", {"BackOff"}))):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with simulated_cluster(folder, nodes=1, node_events=mode) as cluster:
            await cluster.create("pods", "p", content=bound_to("node-0"), annotations=crashing)
            await cluster.wait_until_idle(30)
            assert {event["reason"] for event in recorded(cluster)} == reasons


async def test_pod_that_does_not_fit_on_its_node_fails(tmp_path: Path, autojump_clock: MockClock) -> None:
    def asking(cpu: str) -> Object:
        requests = {"requests": {"cpu": cpu}}
        return bound_to("node-0", containers=[{"name": "c", "image": "i", "resources": requests}])

    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        await cluster.create("pods", "p", content=asking("10"))
        await cluster.create("pods", "q", content=asking("7"))
        await cluster.wait_until_idle()
        assert sorted((phase(cluster, "p"), phase(cluster, "q"))) == ["Failed", "Running"]
        (event,) = recorded(cluster, "OutOfcpu")
        failed = cluster.get("pods", event["involvedObject"]["name"])
        assert failed is not None and failed["status"]["reason"] == "OutOfcpu"
        assert failed["status"]["message"] == f"Pod {event['message']}"
        await cluster.create("pods", "r", content=asking("1"))  # what failed does not count
        await cluster.wait_until_idle()
        assert phase(cluster, "r") == "Running"


async def test_critical_pod_preempts(tmp_path: Path, autojump_clock: MockClock) -> None:
    large = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "10"}}}]
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        await cluster.create("pods", "p", content=bound_to("node-0", containers=large))
        await cluster.wait_until_idle()
        critical = bound_to("node-0", containers=large, priority=2_000_001_000)
        await cluster.create("pods", "q", content=critical)
        await cluster.wait_until_idle()
        preempted = cluster.get("pods", "p")
        assert preempted is not None and phase(cluster, "q") == "Running"
        assert (preempted["status"]["phase"], preempted["status"]["reason"]) == ("Failed", "Preempting")


async def test_pod_starts_when_what_it_needs_appears(tmp_path: Path, autojump_clock: MockClock) -> None:
    needs = [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}]
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        await cluster.create("pods", "p", content=bound_to("node-0", containers=needs))
        await cluster.wait_until_idle(60)
        assert phase(cluster, "p") == "Pending"
        (failed,) = recorded(cluster, "Failed")
        assert failed["message"] == 'Error: secret "s" not found' and failed["count"] > 4
        await cluster.create("secrets", "s")
        await cluster.wait_until_idle()
        assert phase(cluster, "p") == "Running"


async def test_capacity_that_is_added_becomes_allocatable(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def give(**capacity: str) -> Object:
        definition, node = cluster.catalog.storage("nodes"), cluster.get("nodes", "node-0")
        assert node is not None
        node["status"]["capacity"] |= {name.replace("_", "/"): amount for name, amount in capacity.items()}
        await cluster.client.replace(definition, node, "status")
        await cluster.wait_until_idle()
        found = cluster.get("nodes", "node-0")
        assert found is not None
        allocatable: Object = found["status"]["allocatable"]
        return allocatable

    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        assert (await give(**{"example.com_gpu": "2"}))["example.com/gpu"] == "2"
        assert (await give(**{"example.com_gpu": "4", "cpu": "32"}))["example.com/gpu"] == "4"
        assert (await give())["cpu"] == "32"
        node = cluster.get("nodes", "node-0")
        assert node is not None
        node["status"]["capacity"]["cpu"], node["status"]["allocatable"]["cpu"] = "64", "60"
        await cluster.client.replace(cluster.catalog.storage("nodes"), node, "status")
        await cluster.wait_until_idle()
        assert (await give())["cpu"] == "60"  # somebody has reserved the rest


async def test_deleted_pod_that_takes_time_ends_with_terminated_containers(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        slow = {"sim/terminate-after": "5"}
        await cluster.create("pods", "p", content=bound_to("node-0"), annotations=slow)
        await cluster.wait_until_idle()
        await cluster.delete("pods", "p")
        await cluster.wait_until_idle(4)
        assert cluster.is_being_deleted("pods", "p")
        await cluster.wait_until_idle(1)
        assert cluster.get("pods", "p") is None
        bodies = [event.body for event in cluster.events("pods", "p")]
        assert b'"terminated"' in bodies[-2]


async def test_only_annotated_nodes_are_simulated_without_a_count(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with simulated_cluster(tmp_path) as cluster:
        await cluster.create("nodes", "plain")
        await cluster.create("nodes", "ours", annotations={"sim/node": "true"})
        await cluster.create("nodes", "kwok", annotations={"kwok.x-k8s.io/node": "fake"})
        await cluster.wait_until_idle()
        ready = {
            name: conditions(cluster.get("nodes", name)).get("Ready") for name in ("plain", "ours", "kwok")
        }
        assert ready == {"plain": None, "ours": "True", "kwok": "True"}


async def test_node_without_reported_conditions_is_adopted_and_counted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    reported = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "starting"}
    async with simulated_cluster(tmp_path, nodes=0) as cluster:
        await cluster.create("nodes", "bare", content={"status": {"capacity": {"cpu": "2", "pods": "5"}}})
        await cluster.create("nodes", "real", content={"status": {"conditions": [reported]}})
        await cluster.wait_until_idle()
        bare, real = cluster.get("nodes", "bare"), cluster.get("nodes", "real")
        assert conditions(bare)["Ready"] == "True" and conditions(real) == {"Ready": "False"}
        assert bare is not None and bare["status"]["allocatable"] == {"cpu": "2", "pods": "5"}
        assert bare["metadata"]["annotations"] == {"sim/node": "true"}


async def test_pods_continue_where_they_were_after_a_restart(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        await cluster.create("pods", "p", content=bound_to("node-0"), annotations={"sim/start-after": "60"})
        await cluster.create("pods", "q", content=bound_to("node-0"))
        await cluster.wait_until_idle()
        first = cluster.get("pods", "q")
        assert first is not None and phase(cluster, "p") == "Pending"
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        node = cluster.get("nodes", "node-0")
        assert phase(cluster, "p") == "Pending" and node is not None
        assert len(cluster.events("nodes", "node-0")) == 2 and node["status"]["images"]  # of q
        await cluster.wait_until_idle(60)
        second = cluster.get("pods", "p")
        assert second is not None and second["status"]["phase"] == "Running"
        assert second["status"]["podIP"] != first["status"]["podIP"]
        assert cluster.get("pods", "q") == first


async def test_loop_that_runs_again_takes_the_state_of_then(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        workloads = simulated(cluster, nodes=2)
        async with running(cluster, workloads):
            await cluster.create("pods", "p", content=bound_to("node-0"))
        await cluster.delete("nodes", "node-0")
        await cluster.delete("pods", "p")
        await cluster.create("pods", "q", content=bound_to("node-1"))
        async with running(cluster, workloads):
            assert phase(cluster, "q") == "Running" and cluster.names("nodes", None) == ["node-1"]
            assert cluster.is_being_deleted("pods", "p")  # its node is gone
            before = len(cluster.events(LEASES, "node-1"))
            await cluster.wait_until_idle(30)
            assert len(cluster.events(LEASES, "node-1")) == before + 3


async def test_pods_of_a_node_that_was_removed_stay_as_they_are(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        await cluster.create("pods", "p", content=bound_to("node-0"), annotations={"sim/start-after": "5"})
        await cluster.wait_until_idle()
        await cluster.delete("nodes", "node-0")
        await cluster.wait_until_idle(60)
        assert phase(cluster, "p") == "Pending" and cluster.names("nodes", None) == []


async def test_same_seed_gives_the_same_writes_at_the_same_times(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    written: list[list[tuple[int, str, str]]] = []
    for number, seed in enumerate((5, 5, 6)):
        folder = tmp_path / str(number)
        folder.mkdir()
        begin = cluster_time()
        async with simulated_cluster(folder, nodes=5, seed=seed) as cluster:
            for pod in range(5):
                content = bound_to(f"node-{pod}")
                await cluster.create("pods", f"p{pod}", content=content, annotations={"sim/exit-after": "3"})
            await cluster.wait_until_idle(120)
            with cluster.journal.read() as view:
                every = [
                    (round((event.time - begin) / 1000), event.user, event.name.partition(".")[0])
                    for event in view.events(0)  # names of Events end with the time
                ]
        written.append(sorted(one for one in every if one[1].startswith("system:node:")))
    assert written[0] == written[1] and len(written[0]) > 80
    assert written[0] != written[2]  # leases are renewed at other times


def cluster_time() -> int:
    return START + int(trio.current_time() * 1_000_000)


async def test_a_pod_that_is_deleted_right_after_its_status_was_written_goes(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        send = cluster.directory.ask

        async def delete_before_the_reply(definition: Definition, command: Command) -> Outcome:
            outcome = await send(definition, command)
            if isinstance(command, Replace) and definition.plural == "pods":
                await cluster.delete("pods", command.name)
            return outcome

        monkeypatch.setattr(cluster.directory, "ask", delete_before_the_reply)
        await cluster.create("pods", "p", content=bound_to("node-0"))
        await cluster.wait_until_idle(60)
        assert cluster.names("pods") == []


async def test_node_lists_its_images_after_ten_seconds(tmp_path: Path, autojump_clock: MockClock) -> None:
    def names() -> list[str]:
        node = cluster.get("nodes", "node-0")
        assert node is not None
        return [name for one in node["status"].get("images", ()) for name in one["names"]]

    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        node = cluster.get("nodes", "node-0")
        assert node is not None
        node["status"]["images"] = [{"names": ["example.io/given:1"], "sizeBytes": 10**9}]
        await cluster.client.replace(cluster.catalog.storage("nodes"), node, "status")
        for name in ("web", "team/web:2"):
            containers = [{"name": "c", "image": name}]
            await cluster.create("pods", name[:3], content=bound_to("node-0", containers=containers))
        await cluster.wait_until_idle()
        assert names() == ["example.io/given:1"]
        await trio.sleep(11)
        await cluster.wait_until_idle()
        assert names() == ["example.io/given:1", "docker.io/library/web:latest", "docker.io/team/web:2"]


async def test_pod_starts_when_its_config_map_is_committed_with_other_objects(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with simulated_cluster(tmp_path, nodes=1) as cluster:
        volume = {"name": "v", "configMap": {"name": "late"}}
        container = {"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        content = bound_to("node-0", volumes=[volume], containers=[container])
        await cluster.create("pods", "p", content=content)
        await cluster.wait_until_idle()
        assert phase(cluster, "p") == "Pending"
        async with trio.open_nursery() as nursery:  # the committer makes one batch of all
            nursery.start_soon(cluster.create, "serviceaccounts", "beside")
            nursery.start_soon(cluster.create, "configmaps", "late")
        await cluster.wait_until_idle()
        assert cluster.feed.behind() == 0  # in whatever order they are
        assert phase(cluster, "p") == "Running"
