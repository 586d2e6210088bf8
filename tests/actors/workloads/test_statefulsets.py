"""A StatefulSet creates, replaces and deletes its pods in order."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.versions.features import AUTO_DELETE, MAX_UNAVAILABLE, Release, choose_release
from rewound.actors.workloads import statefulsets
from rewound.actors.workloads.pods import available_in
from rewound.actors.workloads.revisions import holds
from tests.actors.workloads.bench import Bench, open_bench, pod_template

LABELS = {"app": "db"}


def stateful_set(replicas: int, template: Object | None = None, **spec: object) -> Object:
    return {
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": template or pod_template(LABELS),
            **spec,
        },
    }


def status(bench: Bench, *parts: str) -> tuple[object, ...]:
    found = bench.get("statefulsets.apps", "db")["status"]
    return tuple(found.get(part, 0) for part in parts)


def counts(bench: Bench) -> tuple[object, ...]:
    """replicas, ready, available, current and updated."""
    parts = ("replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas")
    return status(bench, *parts)


def revisions_of(bench: Bench) -> list[tuple[str, str]]:
    """Each pod with its revision."""
    return [
        (pod["metadata"]["name"], pod["metadata"]["labels"]["controller-revision-hash"])
        for pod in bench.all("pods")
    ]


async def update(bench: Bench, **template: str) -> None:
    await bench.patch("statefulsets.apps", "db", {"spec": {"template": pod_template(LABELS, **template)}})


async def mark(bench: Bench, pod: str, **annotations: str | None) -> None:
    sent = {f"sim/{name.replace('_', '-')}": value for name, value in annotations.items()}
    await bench.patch("pods", pod, {"metadata": {"annotations": sent}})


async def test_pods_have_names_hosts_and_labels_and_are_made_one_after_the_other(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(3))
        await bench.rest()
        assert counts(bench) == (3, 3, 3, 3, 3)
        assert bench.events("db") == [
            ("SuccessfulCreate", f"create Pod db-{number} in StatefulSet db successful")
            for number in range(3)
        ]
        (revision,) = bench.all("controllerrevisions.apps")
        name = revision["metadata"]["name"]
        assert revision["revision"] == 1
        assert revision["metadata"]["labels"] == {
            **LABELS,
            "controller.kubernetes.io/hash": name.removeprefix("db-"),
        }
        pod = bench.get("pods", "db-1")
        assert pod["metadata"]["labels"] == {
            **LABELS,
            "controller-revision-hash": name,
            "statefulset.kubernetes.io/pod-name": "db-1",
        }
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-1", "db")
        (reference,) = pod["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["controller"]) == ("StatefulSet", True)
        assert status(bench, "currentRevision", "updateRevision", "collisionCount") == (name, name, 0)
        made = [one for one in bench.directory.commands if one == ("statefulset-controller", "pods")]
        assert len(made) == 3


async def test_ordered_set_waits_for_a_pod_that_is_not_ready(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    template = pod_template(LABELS, phase="NeverReady")
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(3, template))
        await bench.rest(600)
        assert bench.names("pods") == ["db-0"] and counts(bench) == (1, 0, 0, 1, 1)
        await mark(bench, "db-0", phase="Running")
        await bench.rest()
        assert bench.names("pods") == ["db-0", "db-1"] and counts(bench) == (2, 1, 1, 2, 2)


async def test_parallel_set_waits_for_none(tmp_path: Path, autojump_clock: MockClock) -> None:
    template = pod_template(LABELS, phase="NeverReady")
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(5, template, podManagementPolicy="Parallel"))
        await bench.rest()
        assert counts(bench) == (5, 0, 0, 5, 5)
        await bench.patch("statefulsets.apps", "db", {"spec": {"replicas": 1}})
        await bench.rest()
        assert bench.names("pods") == ["db-0"] and counts(bench) == (1, 0, 0, 1, 1)


async def test_scale_down_goes_from_the_top_and_waits_while_a_lower_pod_is_not_ready(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(4))
        await bench.rest()
        await mark(bench, "db-0", phase="NeverReady")
        await bench.rest(600)
        await bench.patch("statefulsets.apps", "db", {"spec": {"replicas": 1}})
        await bench.rest(600)
        assert len(bench.names("pods")) == 4 and status(bench, "observedGeneration") == (2,)
        await mark(bench, "db-0", phase="Running")
        # The first pod to be deleted may be unready, a higher one may not.
        await mark(bench, "db-1", phase="NeverReady")
        await bench.rest()
        assert bench.names("pods") == ["db-0"]
        deleted = [message.split()[2] for reason, message in bench.events("db") if reason.endswith("Delete")]
        assert deleted == ["db-3", "db-2", "db-1"]


async def test_update_replaces_from_the_top_and_a_rollback_uses_the_old_revision_again(
    tmp_path: Path,
    autojump_clock: MockClock,
) -> None:
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(3))
        await bench.rest()
        (first,) = bench.names("controllerrevisions.apps")
        await update(bench, image="web:2")
        await bench.rest()
        deleted = [message.split()[2] for reason, message in bench.events("db") if reason.endswith("Delete")]
        assert deleted == ["db-2", "db-1", "db-0"]
        (second,) = set(bench.names("controllerrevisions.apps")) - {first}
        assert revisions_of(bench) == [(f"db-{number}", second) for number in range(3)]
        assert counts(bench) == (3, 3, 3, 3, 3) and status(bench, "currentRevision") == (second,)
        await update(bench, image="web:1")
        await bench.rest()
        numbers = {one["metadata"]["name"]: one["revision"] for one in bench.all("controllerrevisions.apps")}
        assert numbers == {first: 3, second: 2}
        assert {revision for _, revision in revisions_of(bench)} == {first}


async def test_update_stops_at_the_first_pod_that_does_not_become_ready(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(3))
        await bench.rest()
        before = dict(revisions_of(bench))
        await update(bench, image="web:2", phase="NeverReady")
        await bench.rest(600)
        after = dict(revisions_of(bench))
        assert [name for name in after if after[name] != before[name]] == ["db-2"]
        assert counts(bench) == (3, 2, 2, 2, 1)
        await update(bench, image="web:3", phase="Running")  # does not repair the pod
        await bench.rest(600)
        assert dict(revisions_of(bench)) == after
        await bench.delete("pods", "db-2")
        await bench.rest()
        assert counts(bench) == (3, 3, 3, 3, 3)


async def test_set_of_one_completes_its_update_when_it_makes_the_new_pod(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(1))
        await bench.rest()
        await update(bench, image="web:2", phase="NeverReady")
        await bench.rest()
        assert counts(bench) == (1, 0, 0, 1, 1)
        current, updated = status(bench, "currentRevision", "updateRevision")
        assert current == updated


async def test_partition_keeps_lower_pods_at_the_current_revision(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(4, updateStrategy=strategy))
        await bench.rest()
        (first,) = bench.names("controllerrevisions.apps")
        await update(bench, image="web:2")
        await bench.rest()
        await bench.delete("pods", "db-0")
        await bench.rest()
        assert [revision == first for _, revision in revisions_of(bench)] == [True, True, False, False]
        assert bench.get("pods", "db-0")["spec"]["containers"][0]["image"] == "web:1"
        assert counts(bench) == (4, 4, 4, 2, 2) and status(bench, "currentRevision") == (first,)
        partition: Object = {"rollingUpdate": {"partition": 0}}
        await bench.patch("statefulsets.apps", "db", {"spec": {"updateStrategy": partition}})
        await bench.rest()
        assert counts(bench) == (4, 4, 4, 4, 4) and status(bench, "currentRevision") != (first,)


async def test_pods_of_on_delete_are_updated_when_a_client_deletes_them(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(2, updateStrategy={"type": "OnDelete"}))
        await bench.rest()
        (first,) = bench.names("controllerrevisions.apps")
        await update(bench, image="web:2")
        await bench.rest()
        assert {revision for _, revision in revisions_of(bench)} == {first}
        await bench.delete("pods", "db-1")
        await bench.rest()
        assert [revision == first for _, revision in revisions_of(bench)] == [True, False]
        assert counts(bench) == (2, 2, 2, 1, 1)


async def test_history_keeps_as_many_unused_revisions_as_its_limit(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(1, revisionHistoryLimit=2))
        for number in range(1, 6):
            await update(bench, image=f"web:{number}")
            await bench.rest()
        numbers = sorted(one["revision"] for one in bench.all("controllerrevisions.apps"))
        assert numbers == [3, 4, 5]


async def test_failed_pod_is_made_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(2))
        await bench.rest()
        before = bench.get("pods", "db-0")["metadata"]["uid"]
        await mark(bench, "db-0", phase="Failed")
        await bench.rest()
        assert bench.get("pods", "db-0")["metadata"]["uid"] != before
        assert counts(bench) == (2, 2, 2, 2, 2)
        expected = "StatefulSet default/db is recreating failed Pod db-0"
        assert ("RecreatingFailedPod", expected) in bench.events("db")


async def test_pod_is_available_after_min_ready_seconds(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(2, minReadySeconds=30))
        await bench.rest(29)
        assert bench.names("pods") == ["db-0"] and counts(bench) == (1, 1, 0, 1, 1)
        await bench.rest(2)
        assert counts(bench) == (2, 2, 1, 2, 2)
        await bench.rest(31)
        assert counts(bench) == (2, 2, 2, 2, 2)
        written = len(bench.directory.commands)
        await bench.rest(1800)
        assert len(bench.directory.commands) == written


async def test_a_set_at_rest_compares_the_newest_of_its_revisions_only(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []

    def counted(revision: Object, data: bytes) -> bool:
        compared.append(revision["revision"])
        return holds(revision, data)

    monkeypatch.setattr(statefulsets, "holds", counted)
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(1))
        for image in ("two", "three"):
            await bench.rest(60)
            await bench.patch("statefulsets.apps", "db", {"spec": {"template": pod_template(LABELS, image)}})
        await bench.rest(60)
        compared.clear()
        await bench.patch("statefulsets.apps", "db", {"metadata": {"labels": {"look": "again"}}})
        await bench.rest()
        assert compared == [3]


def test_pod_becomes_available_right_after_its_min_ready_seconds() -> None:
    """As in v1.25, not at the moment when they end: a pod that waits for it is checked a microsecond later."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:05Z"}
    pod = {"status": {"conditions": [ready]}}
    assert available_in(pod, 10, 15_000_000) == 0.000001
    assert available_in(pod, 10, 15_000_001) == 0
    assert available_in(pod, 0, 5_000_000) == 0


CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


async def test_claims_are_made_before_their_pod_and_stay(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(2, volumeClaimTemplates=[CLAIM]))
        await bench.rest()
        assert bench.names("persistentvolumeclaims") == ["data-db-0", "data-db-1"]
        assert bench.events("db")[:2] == [
            ("SuccessfulCreate", "create Claim data-db-0 Pod db-0 in StatefulSet db success"),
            ("SuccessfulCreate", "create Pod db-0 in StatefulSet db successful"),
        ]
        claim, pod = bench.get("persistentvolumeclaims", "data-db-1"), bench.get("pods", "db-1")
        assert claim["metadata"]["labels"] == LABELS and claim["status"] == {"phase": "Pending"}
        assert "kind" not in claim
        assert pod["spec"]["volumes"][0] == {
            "name": "data",
            "persistentVolumeClaim": {"claimName": "data-db-1"},
        }
        await bench.patch("statefulsets.apps", "db", {"spec": {"replicas": 0}})
        await bench.rest()
        assert bench.names("pods") == []
        assert bench.names("persistentvolumeclaims") == ["data-db-0", "data-db-1"]


async def test_pod_waits_while_its_claim_is_being_deleted(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "statefulset") as bench:
        held = {"metadata": {"name": "data-db-0", "finalizers": ["example.com/hold"]}, "spec": CLAIM["spec"]}
        await bench.create("persistentvolumeclaims", held)
        await bench.delete("persistentvolumeclaims", "data-db-0")
        await bench.create("statefulsets.apps", stateful_set(1, volumeClaimTemplates=[CLAIM]))
        await bench.rest(1)
        assert bench.names("pods") == []
        why = "create Pod db-0 in StatefulSet db failed error: pvc data-db-0 is being deleted"
        assert set(bench.events("db")) == {("FailedCreate", why)}
        await bench.patch("persistentvolumeclaims", "data-db-0", {"metadata": {"finalizers": None}})
        await bench.rest()
        assert bench.names("pods") == ["db-0"]


@pytest.mark.parametrize(
    ("version", "event"),
    [
        ("1.26", None),
        ("1.27", ("RecreatingTerminatedPod", "StatefulSet default/db is recreating terminated Pod db-1")),
        ("1.28", None),
    ],
)
async def test_pods_that_succeeded_are_replaced_since_1_27(
    tmp_path: Path, autojump_clock: MockClock, version: str, event: tuple[str, str] | None
) -> None:
    async with open_bench(tmp_path, "statefulset", release=choose_release(version)) as bench:
        await bench.create("statefulsets.apps", stateful_set(2))
        await bench.rest()
        before = bench.get("pods", "db-1")["metadata"]["uid"]
        await mark(bench, "db-1", phase="Succeeded")
        await bench.rest()
        is_same = bench.get("pods", "db-1")["metadata"]["uid"] == before
        assert is_same == (version == "1.26")
        assert [one for one in bench.events("db") if one[0].startswith("Recreating")] == [event] * (
            event is not None
        )


async def test_pod_that_has_ended_and_is_held_is_deleted_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "statefulset", release=choose_release("1.36")) as bench:
        await bench.create("statefulsets.apps", stateful_set(1))
        await bench.rest()
        await bench.patch("pods", "db-0", {"metadata": {"finalizers": ["example.com/hold"]}})
        await mark(bench, "db-0", phase="Failed")
        await bench.rest(600)
        assert [reason for reason, _ in bench.events("db")] == ["SuccessfulCreate", "SuccessfulDelete"]
        assert status(bench, "replicas") == (1,)
        await bench.patch("pods", "db-0", {"metadata": {"finalizers": None}})
        await bench.rest()
        assert counts(bench) == (1, 1, 1, 1, 1)


async def lose_claim(bench: Bench) -> None:
    await bench.patch("persistentvolumeclaims", "data-db-0", {"metadata": {"finalizers": None}})
    await bench.delete("persistentvolumeclaims", "data-db-0")
    await bench.rest()


@pytest.mark.parametrize(("version", "claims"), [("1.26", []), ("1.27", ["data-db-0"])])
@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
async def test_claims_of_pending_pods_are_created_again_since_1_27(
    tmp_path: Path, autojump_clock: MockClock, version: str, claims: list[str], policy: str
) -> None:
    async with open_bench(tmp_path, "statefulset", release=choose_release(version)) as bench:
        template = pod_template(LABELS, phase="Pending")
        new = stateful_set(1, template, volumeClaimTemplates=[CLAIM], podManagementPolicy=policy)
        await bench.create("statefulsets.apps", new)
        await bench.rest()
        await lose_claim(bench)
        assert bench.names("persistentvolumeclaims") == claims
        await mark(bench, "db-0", phase="Running")
        await bench.rest()
        if claims:
            await lose_claim(bench)
            assert bench.names("persistentvolumeclaims") == []  # a pod that runs does not wait for it


@pytest.mark.parametrize(("version", "replaced"), [("1.33", 3), ("1.34", 1)])
async def test_update_waits_until_pods_are_available_since_1_34(
    tmp_path: Path, autojump_clock: MockClock, version: str, replaced: int
) -> None:
    new = stateful_set(3, minReadySeconds=60, podManagementPolicy="Parallel")
    async with open_bench(tmp_path, "statefulset", release=choose_release(version)) as bench:
        await bench.create("statefulsets.apps", new)
        await bench.rest(120)
        (first,) = bench.names("controllerrevisions.apps")
        await update(bench, image="web:2")
        await bench.rest(30)
        assert sum(revision != first for _, revision in revisions_of(bench)) == replaced
        await bench.rest(300)
        assert all(revision != first for _, revision in revisions_of(bench))
        assert counts(bench) == (3, 3, 3, 3, 3)


async def test_only_orphans_with_a_fitting_name_are_adopted_and_get_their_label(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "statefulset") as bench:
        for name in ("db-0", "db", "other-1", "db-x"):
            pod = {"metadata": {"name": name, "labels": LABELS}, "spec": pod_template({})["spec"]}
            await bench.create("pods", pod)
        await bench.rest()
        uid = bench.get("pods", "db-0")["metadata"]["uid"]
        await bench.create("statefulsets.apps", stateful_set(1, updateStrategy={"type": "OnDelete"}))
        await bench.rest()
        owned = [pod["metadata"]["name"] for pod in bench.all("pods") if "ownerReferences" in pod["metadata"]]
        adopted = bench.get("pods", "db-0")["metadata"]
        assert owned == ["db-0"] and adopted["uid"] == uid
        assert adopted["labels"]["statefulset.kubernetes.io/pod-name"] == "db-0"
        assert ("SuccessfulUpdate", "update Pod db-0 in StatefulSet db successful") in bench.events("db")
        await bench.patch("pods", "db-0", {"metadata": {"labels": {"app": "mine"}}})
        await bench.rest()
        assert "ownerReferences" not in bench.get("pods", "db-0")["metadata"]


async def test_revision_whose_name_is_taken_gets_another_one(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.create("statefulsets.apps", stateful_set(1))
        await bench.rest()
        (name,) = bench.names("controllerrevisions.apps")
        await bench.delete("statefulsets.apps", "db", "Orphan")
        await bench.rest()
    async with open_bench(tmp_path, "statefulset", "garbagecollector") as bench:
        await bench.rest()
        await bench.delete("controllerrevisions.apps", name)
        await bench.create(
            "controllerrevisions.apps", {"metadata": {"name": name}, "data": {"spec": {}}, "revision": 7}
        )
        await bench.create("statefulsets.apps", stateful_set(1))
        await bench.rest()
        (other,) = set(bench.names("controllerrevisions.apps")) - {name}
        assert status(bench, "updateRevision", "collisionCount") == (other, 1)


@pytest.mark.parametrize(("version", "revisions"), [("1.33", 2), ("1.34", 1)])
async def test_upgrade_that_adds_a_default_replaces_no_pod_since_1_34(
    tmp_path: Path, autojump_clock: MockClock, version: str, revisions: int
) -> None:
    release = choose_release(version)
    async with open_bench(tmp_path, "statefulset", release=release) as bench:
        await bench.create("statefulsets.apps", stateful_set(2))
        await bench.rest()
        before = {one["metadata"]["uid"] for one in bench.all("pods")}
    async with open_bench(tmp_path, release=release) as bench:
        (revision,) = bench.all("controllerrevisions.apps")
        name = revision["metadata"]["name"]
        older = {"name": name, "labels": revision["metadata"]["labels"]}
        spec = dict(revision["data"]["spec"]["template"]["spec"])
        del spec["schedulerName"]  # as if that version had not known the default
        template = {**revision["data"]["spec"]["template"], "spec": spec}
        await bench.delete("controllerrevisions.apps", name)
        data = {"spec": {"template": template}}
        await bench.create("controllerrevisions.apps", {"metadata": older, "data": data, "revision": 1})
    async with open_bench(tmp_path, "statefulset", release=release) as bench:
        await bench.rest()
        assert len(bench.all("controllerrevisions.apps")) == revisions
        same = {one["metadata"]["uid"] for one in bench.all("pods")} == before
        assert same == (revisions == 1)
        await update(bench, image="app:2")
        await bench.rest()
        assert len(bench.all("controllerrevisions.apps")) == revisions + 1


async def test_refused_pod_is_reported_and_tried_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "statefulset", "resourcequota") as bench:
        await bench.create("resourcequotas", {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}})
        await bench.rest()
        await bench.create("statefulsets.apps", stateful_set(4, podManagementPolicy="Parallel"))
        await bench.rest()
        # The first one is created alone; of the next two, one is refused; the last is not tried.
        failed = [message for reason, message in bench.events("db") if reason == "FailedCreate"]
        limit = "exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2"
        assert failed[0] in [
            f'create Pod {name} in StatefulSet db failed error: pods "{name}" is forbidden: {limit}'
            for name in ("db-1", "db-2")
        ]
        await bench.patch("resourcequotas", "few", {"spec": {"hard": {"pods": "9"}}})
        await bench.rest(120)
        assert counts(bench) == (4, 4, 4, 4, 4)


async def test_set_that_is_being_deleted_still_counts_its_pods(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "statefulset", "garbagecollector") as bench:
        await bench.create("statefulsets.apps", stateful_set(2))
        await bench.rest()
        await mark(bench, "db-0", hold_termination="true")
        await bench.delete("statefulsets.apps", "db", "Foreground")
        await bench.rest()
        assert bench.names("pods") == ["db-0"] and counts(bench) == (1, 1, 1, 0, 0)
        await mark(bench, "db-0", hold_termination=None)
        await bench.rest()
        assert [bench.names(of) for of in ("pods", "statefulsets.apps", "controllerrevisions.apps")] == [
            []
        ] * 3


async def test_claims_go_with_the_set_or_their_pod_by_the_retention_policy(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    controllers = ("statefulset", "garbagecollector", "pvc-protection")
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    async with open_bench(
        tmp_path, *controllers, release=Release(features=frozenset({AUTO_DELETE}))
    ) as bench:

        def owners() -> dict[str, list[str]]:
            return {
                one["metadata"]["name"]: [
                    owner["kind"] for owner in one["metadata"].get("ownerReferences") or ()
                ]
                for one in bench.all("persistentvolumeclaims")
            }

        async def retain(**changed: str) -> None:
            spec = {"persistentVolumeClaimRetentionPolicy": changed}
            await bench.patch("statefulsets.apps", "db", {"spec": spec})
            await bench.rest()

        new = stateful_set(
            3, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"}
        )
        await bench.create("statefulsets.apps", new)
        await bench.rest()
        assert owners() == {"data-db-0": [], "data-db-1": [], "data-db-2": []}
        await retain(**policy)
        assert owners() == {name: ["StatefulSet"] for name in owners()}
        assert ("SuccessfulUpdate", "update Pod db-2 in StatefulSet db successful") in bench.events("db")
        await mark(bench, "db-2", hold_termination="true")
        await bench.patch("statefulsets.apps", "db", {"spec": {"replicas": 1}})
        await bench.rest()
        held = {"data-db-0": ["StatefulSet"], "data-db-1": ["Pod"], "data-db-2": ["Pod"]}
        assert owners() == held
        await mark(bench, "db-2", hold_termination=None)
        await bench.rest()
        assert owners() == {"data-db-0": ["StatefulSet"]}
        await retain(whenScaled="Retain")
        await bench.patch("statefulsets.apps", "db", {"spec": {"replicas": 2}})
        await bench.rest()
        await bench.patch("statefulsets.apps", "db", {"spec": {"replicas": 1}})
        await bench.rest()
        assert owners() == {"data-db-0": ["StatefulSet"], "data-db-1": ["StatefulSet"]}
        await bench.delete("statefulsets.apps", "db")
        await bench.rest()
        assert owners() == {} and bench.names("pods") == []


async def test_new_pod_waits_for_the_claim_of_its_predecessor_to_go(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    controllers = ("statefulset", "garbagecollector", "pvc-protection")
    new = stateful_set(
        2, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"}
    )
    async with open_bench(
        tmp_path, *controllers, release=Release(features=frozenset({AUTO_DELETE}))
    ) as bench:
        await bench.create("statefulsets.apps", new)
        await bench.rest()
        held = {"metadata": {"finalizers": ["example.com/hold"]}}
        await bench.patch("persistentvolumeclaims", "data-db-1", held)
        await bench.patch("statefulsets.apps", "db", {"spec": {"replicas": 1}})
        await bench.rest()
        await bench.patch("statefulsets.apps", "db", {"spec": {"replicas": 2}})
        await bench.rest()
        assert bench.names("pods") == ["db-0"]
        await bench.patch("persistentvolumeclaims", "data-db-1", {"metadata": {"finalizers": None}})
        await bench.rest()
        assert bench.names("pods") == ["db-0", "db-1"]


async def test_update_replaces_as_many_pods_as_may_be_unavailable(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}
    new = stateful_set(5, updateStrategy=strategy, podManagementPolicy="Parallel")
    async with open_bench(
        tmp_path, "statefulset", release=Release(features=frozenset({MAX_UNAVAILABLE}))
    ) as bench:
        await bench.create("statefulsets.apps", new)
        await bench.rest()
        (first,) = bench.names("controllerrevisions.apps")
        await update(bench, image="web:2", phase="NeverReady")
        await bench.rest()
        assert [revision == first for _, revision in revisions_of(bench)] == [True, True, True, False, False]
        assert counts(bench) == (5, 3, 3, 3, 2)
        await mark(bench, "db-3", phase="Running")
        await bench.rest()
        assert [revision == first for _, revision in revisions_of(bench)] == [True, True, False, False, False]


@pytest.mark.parametrize("stop", range(1, 34, 4))
async def test_a_kill_before_any_write_ends_in_the_same_world(
    tmp_path: Path, autojump_clock: MockClock, stop: int
) -> None:
    async with open_bench(tmp_path, "statefulset") as bench:
        bench.kill_before(stop, "statefulset-controller")
        await bench.create("statefulsets.apps", stateful_set(3, volumeClaimTemplates=[CLAIM]))
        await bench.rest()
        await update(bench, image="web:2")
        await bench.rest()
        await bench.patch("statefulsets.apps", "db", {"spec": {"replicas": 2}})
        await bench.rest()
    async with open_bench(tmp_path, "statefulset") as bench:
        await bench.rest()
        await update(bench, image="web:2")
        await bench.patch("statefulsets.apps", "db", {"spec": {"replicas": 2}})
        await bench.rest()
        assert bench.names("pods") == ["db-0", "db-1"] and counts(bench) == (2, 2, 2, 2, 2)
        assert len({revision for _, revision in revisions_of(bench)}) == 1
        assert sorted(one["revision"] for one in bench.all("controllerrevisions.apps")) == [1, 2]
