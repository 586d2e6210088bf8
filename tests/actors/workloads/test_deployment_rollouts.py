"""A Deployment replaces the pods of one template with those of another, as in v1.25."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Command, Object
from rewound.actors.versions.features import choose_release
from tests.actors.workloads.bench import Bench, open_bench, pod_template

DEPLOYMENTS, SETS = "deployments.apps", "replicasets.apps"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
ROLLING = ("deployment", "replicaset")


def deployment(name: str, replicas: int, **spec: object) -> Object:
    labels = {"app": name}
    template = pod_template(labels)
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


def strategy(surge: int | str, unavailable: int | str) -> Object:
    limits = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": limits}


async def set_image(bench: Bench, image: str, phase: str = "Running") -> None:
    template = pod_template({"app": "web"}, image, phase=phase)
    await bench.patch(DEPLOYMENTS, "web", {"spec": {"template": template}})


def sizes(bench: Bench) -> dict[str, int]:
    """The size of each ReplicaSet, by the image of its pods."""
    return {_image(one): one["spec"]["replicas"] for one in bench.all(SETS)}


def _image(one: Object) -> str:
    image: str = one["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def conditions(bench: Bench) -> dict[str, tuple[str, str]]:
    found = bench.get(DEPLOYMENTS, "web")["status"]["conditions"]
    return {one["type"]: (one["status"], one["reason"]) for one in found}


async def test_a_deployment_makes_a_replica_set_and_its_pods(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, *ROLLING) as bench:
        await bench.create(DEPLOYMENTS, deployment("web", 3))
        await bench.rest()
        made = bench.get(DEPLOYMENTS, "web")
        (replica_set,) = bench.all(SETS)
        name = replica_set["metadata"]["name"]
        assert made["metadata"]["annotations"] == {REVISION: "1"} and made["metadata"]["generation"] == 1
        assert replica_set["metadata"]["labels"]["pod-template-hash"] == name.removeprefix("web-")
        status = made["status"]
        assert [status.get(part) for part in ("replicas", "updatedReplicas", "availableReplicas")] == [3] * 3
        assert conditions(bench) == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }
        assert bench.events("web") == [("ScalingReplicaSet", f"Scaled up replica set {name} to 3")]


@pytest.mark.parametrize(("version", "sets"), [("1.33", 0), ("1.34", 1)])
async def test_name_of_a_deployment_is_shortened_for_its_replica_sets(
    tmp_path: Path, autojump_clock: MockClock, version: str, sets: int
) -> None:
    async with open_bench(tmp_path, *ROLLING, release=choose_release(version)) as bench:
        name = "w" * 253
        made = {**deployment("web", 1), "metadata": {"name": name}}
        await bench.create(DEPLOYMENTS, made)
        await bench.rest()
        found = bench.names(SETS)
        assert len(found) == sets
        for one in found:
            kept, hashed = one.split("-")
            assert len(one) == 253 and name.startswith(kept) and len(hashed) in (9, 10)


async def test_a_new_template_never_exceeds_surge_and_unavailable(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, *ROLLING) as bench:
        await bench.create(DEPLOYMENTS, deployment("web", 4, strategy=strategy(1, "25%")))
        await bench.rest()
        seen: list[tuple[int, int]] = []
        sets = bench.workloads.parts.cache.collection(SETS)
        sets.listen(lambda _old, _new: seen.append(_totals(sets)))
        await set_image(bench, "web:2")
        await bench.rest()
        assert sizes(bench) == {"web:1": 0, "web:2": 4}
        assert max(total for total, _ in seen) <= 5 and min(ready for _, ready in seen) >= 3
        assert conditions(bench)["Progressing"] == ("True", "NewReplicaSetAvailable")


def _totals(sets: object) -> tuple[int, int]:
    all_sets = list(sets)  # type: ignore[call-overload]
    ready = sum(one["status"].get("availableReplicas", 0) for one in all_sets)
    return sum(one["spec"]["replicas"] for one in all_sets), ready


async def test_a_rollout_that_makes_no_progress_times_out_and_can_be_undone(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, *ROLLING) as bench:
        wanted = deployment("web", 4, strategy=strategy(2, 1), progressDeadlineSeconds=60)
        await bench.create(DEPLOYMENTS, wanted)
        await bench.rest()
        await set_image(bench, "web:2", "NeverReady")
        await bench.rest(59)
        assert sizes(bench) == {"web:1": 3, "web:2": 3}
        assert conditions(bench)["Progressing"] == ("True", "ReplicaSetUpdated")
        await bench.rest(2)
        assert conditions(bench)["Progressing"] == ("False", "ProgressDeadlineExceeded")
        assert conditions(bench)["Available"] == ("True", "MinimumReplicasAvailable")
        before = {"metadata": {"annotations": None}, "spec": wanted["spec"]["template"]["spec"]}
        await bench.patch(DEPLOYMENTS, "web", {"spec": {"template": before}})
        await bench.rest()
        assert sizes(bench) == {"web:1": 4, "web:2": 0}
        assert conditions(bench)["Progressing"] == ("True", "NewReplicaSetAvailable")


async def test_a_template_from_before_gets_its_replica_set_back(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, *ROLLING) as bench:
        await bench.create(DEPLOYMENTS, deployment("web", 1))
        await bench.rest()
        await _set_plain_image(bench, "web:2")
        await _set_plain_image(bench, "web:1")
        first, second = sorted(bench.all(SETS), key=_image)
        assert first["metadata"]["annotations"][REVISION] == "3"
        assert first["metadata"]["annotations"][HISTORY] == "1"
        assert second["metadata"]["annotations"][REVISION] == "2"
        assert bench.get(DEPLOYMENTS, "web")["metadata"]["annotations"][REVISION] == "3"


async def _set_plain_image(bench: Bench, image: str) -> None:
    containers = [{"name": "main", "image": image}]
    await bench.patch(DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"containers": containers}}}})
    await bench.rest()


async def test_the_annotation_rolls_back_to_a_revision(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, *ROLLING) as bench:
        new = deployment("web", 1)
        new["metadata"]["annotations"] = {"note": "first"}
        await bench.create(DEPLOYMENTS, new)
        await bench.rest()
        await bench.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": {"note": "second"}}})
        await _set_plain_image(bench, "web:2")
        for revision, message in (
            ("7", "Unable to find the revision to rollback to."),
            ("2", 'The rollback revision contains the same template as current deployment "web"'),
            ("0", 'Rolled back deployment "web" to revision 1'),
        ):
            wish = {"deprecated.deployment.rollback.to": revision}
            await bench.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": wish}})
            await bench.rest()
            assert message in [text for _, text in bench.events("web")]
        found = bench.get(DEPLOYMENTS, "web")
        assert sizes(bench) == {"web:1": 1, "web:2": 0}
        # The first template had the later annotation: annotations reach the ReplicaSet without a rollout.
        assert found["metadata"]["annotations"] == {"note": "second", REVISION: "3"}


async def test_recreate_waits_for_the_last_old_pod(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, *ROLLING) as bench:
        await bench.create(DEPLOYMENTS, deployment("web", 2, strategy={"type": "Recreate"}))
        await bench.rest()
        held = bench.names("pods")[0]
        await bench.patch("pods", held, {"metadata": {"annotations": {"sim/hold-termination": "true"}}})
        await set_image(bench, "web:2")
        await bench.rest()
        assert bench.names("pods") == [held] and sizes(bench) == {"web:1": 0}
        await bench.patch("pods", held, {"metadata": {"annotations": {"sim/hold-termination": None}}})
        await bench.rest()
        assert sizes(bench) == {"web:1": 0, "web:2": 2} and len(bench.names("pods")) == 2


async def test_a_paused_deployment_scales_and_keeps_its_template(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, *ROLLING) as bench:
        await bench.create(DEPLOYMENTS, deployment("web", 2))
        await bench.rest()
        await bench.patch(DEPLOYMENTS, "web", {"spec": {"paused": True}})
        await set_image(bench, "web:2")
        await bench.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 3}})
        await bench.rest(1000)
        assert sizes(bench) == {"web:1": 3}
        assert conditions(bench)["Progressing"] == ("Unknown", "DeploymentPaused")
        await bench.patch(DEPLOYMENTS, "web", {"spec": {"paused": None}})
        await bench.rest()
        assert sizes(bench) == {"web:1": 0, "web:2": 3}
        assert conditions(bench)["Progressing"] == ("True", "NewReplicaSetAvailable")


async def test_scaling_in_a_rollout_keeps_proportions(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, *ROLLING) as bench:
        await bench.create(DEPLOYMENTS, deployment("web", 10, strategy=strategy(3, 2)))
        await bench.rest()
        await set_image(bench, "web:2", "NeverReady")
        await bench.rest()
        assert sizes(bench) == {"web:1": 8, "web:2": 5}
        await bench.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 15}})
        await bench.rest()
        assert sizes(bench) == {"web:1": 11, "web:2": 7}
        await bench.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}})
        await bench.rest()
        assert sizes(bench) == {"web:1": 3, "web:2": 5}


async def test_history_keeps_as_many_old_replica_sets_as_its_limit(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, *ROLLING) as bench:
        await bench.create(DEPLOYMENTS, deployment("web", 1, revisionHistoryLimit=1))
        await bench.rest()
        for number in (2, 3, 4):
            await _set_plain_image(bench, f"web:{number}")
        assert sizes(bench) == {"web:3": 0, "web:4": 1}


async def test_replica_sets_are_adopted_and_released_by_their_labels(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, *ROLLING) as bench:
        await bench.create(DEPLOYMENTS, deployment("web", 2))
        await bench.rest()
        (name,) = bench.names(SETS)
        await bench.delete(DEPLOYMENTS, "web", "Orphan")
        await bench.patch(SETS, name, {"metadata": {"ownerReferences": None}})
        await bench.patch(DEPLOYMENTS, "web", {"metadata": {"finalizers": None}})
        await bench.create(DEPLOYMENTS, deployment("web", 2))
        await bench.rest()
        assert bench.names(SETS) == [name] and len(bench.names("pods")) == 2
        await bench.patch(SETS, name, {"metadata": {"labels": {"app": "other"}}})
        await bench.rest()
        # The name of its successor is taken: the hash changes with the number of collisions.
        found = bench.get(DEPLOYMENTS, "web")
        assert found["status"]["collisionCount"] == 1 and len(bench.names(SETS)) == 2
        assert "ownerReferences" not in bench.get(SETS, name)["metadata"]


async def test_failures_of_a_replica_set_are_conditions_of_its_deployment(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, *ROLLING) as bench:
        await bench.create("resourcequotas", {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}})
        await bench.create(DEPLOYMENTS, deployment("web", 3))
        await bench.rest(1)
        assert conditions(bench)["ReplicaFailure"] == ("True", "FailedCreate")
        await bench.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
        await bench.rest(61)
        assert "ReplicaFailure" not in conditions(bench)


async def test_a_replica_set_that_is_refused_is_a_condition(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, *ROLLING) as bench:
        hard = {"count/replicasets.apps": "0"}
        await bench.create("resourcequotas", {"metadata": {"name": "none"}, "spec": {"hard": hard}})
        await bench.create(DEPLOYMENTS, deployment("web", 1))
        await bench.rest(1)
        assert conditions(bench)["Progressing"] == ("False", "ReplicaSetCreateError")
        reasons = {reason for reason, _ in bench.events("web")}
        assert reasons == {"ReplicaSetCreateError"} and bench.names(SETS) == []


async def test_a_kill_at_any_step_ends_in_the_same_world(tmp_path: Path, autojump_clock: MockClock) -> None:
    writes, expected = await _rolled_out(tmp_path / "whole", None)
    assert writes > 12
    for stop in range(1, writes + 1):
        assert (await _rolled_out(tmp_path / str(stop), stop))[1] == expected, f"killed at write {stop}"


async def _rolled_out(path: Path, stop: int | None) -> tuple[int, object]:
    """How many writes the controllers need for a rollout, and how it ends if they are killed at one of them."""
    path.mkdir()
    async with open_bench(path, pods_run=False) as bench:
        await bench.create(DEPLOYMENTS, deployment("web", 1))
    killer = _Killer(stop)
    async with open_bench(path, *ROLLING, before=killer) as bench:
        await bench.rest()
        if not killer.has_killed:
            await _set_plain_image(bench, "web:2")
    async with open_bench(path, *ROLLING) as bench:
        await _set_plain_image(bench, "web:2")
        await bench.rest(100)
        found = bench.get(DEPLOYMENTS, "web")
        counts = {part: value for part, value in found["status"].items() if part != "conditions"}
        return killer.count, (sizes(bench), conditions(bench), len(bench.names("pods")), counts)


class _Killer:
    """After one write of a controller, nothing more is written."""

    def __init__(self, stop: int | None) -> None:
        self._stop, self.count = stop, 0

    @property
    def has_killed(self) -> bool:
        return self.count == self._stop

    async def __call__(self, definition: Definition, command: Command) -> None:
        if command.context.user.endswith("-controller") and definition.plural != "events":
            self.count += not self.has_killed
        if self.has_killed:
            await trio.sleep_forever()


async def test_annotations_and_percentages_of_thousands_of_digits_stop_no_rollout(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    keys = ("revision", "desired-replicas", "max-replicas")
    annotations = {f"deployment.kubernetes.io/{key}": "9" * 5000 for key in keys}
    async with open_bench(tmp_path, *ROLLING) as bench:
        adopted = deployment("web", 1)
        adopted["metadata"] = {"name": "older", "labels": {"app": "web"}, "annotations": annotations}
        await bench.create(SETS, adopted)
        await bench.create(
            DEPLOYMENTS, deployment("web", 3, strategy=strategy("0" * 5000 + "9%", "0" * 5000 + "1%"))
        )
        await bench.rest()
        await set_image(bench, "b")
        await bench.rest()
        assert bench.get(DEPLOYMENTS, "web")["status"]["availableReplicas"] == 3
