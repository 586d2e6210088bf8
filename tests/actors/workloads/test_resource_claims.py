"""The resource claim controller: claims from templates, reservations, and what is released when pods end."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.versions.features import choose_release
from tests.actors.workloads.bench import Bench, open_bench

CLAIMS, TEMPLATES = "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"
NEWEST = choose_release("1.36")
NAME = "resourceclaim-controller"
FINALIZER = "resource.kubernetes.io/delete-protection"
SPEC: Object = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d0"}


async def create_pod(bench: Bench, name: str, *claims: Object, **annotations: str) -> Object:
    metadata = {"name": name, "annotations": {f"sim/{one}": value for one, value in annotations.items()}}
    used = [{"name": one["name"]} for one in claims]
    container = {"name": "main", "image": "web:1", "resources": {"claims": used}}
    spec = {"containers": [container], "resourceClaims": list(claims)}
    return await bench.create("pods", {"metadata": metadata, "spec": spec})


async def create_template(bench: Bench, name: str = "rt", **described: Object) -> None:
    await bench.create(TEMPLATES, {"metadata": {"name": name}, "spec": {"metadata": described, "spec": SPEC}})


async def allocate(bench: Bench, name: str, *pods: Object) -> None:
    await bench.patch(CLAIMS, name, {"metadata": {"finalizers": [FINALIZER]}})
    consumers = [
        {"resource": "pods", "name": one["metadata"]["name"], "uid": one["metadata"]["uid"]} for one in pods
    ]
    status = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": consumers}
    await bench.patch(CLAIMS, name, {"status": status}, "status")


OF_TEMPLATE = {"name": "x", "resourceClaimTemplateName": "rt"}
SHARED = {"name": "x", "resourceClaimName": "rc"}


@pytest.mark.parametrize("version", ["1.32", "1.33", "1.34", "1.36"])
async def test_a_pod_gets_a_claim_from_its_template(
    tmp_path: Path, autojump_clock: MockClock, version: str
) -> None:
    gates = "" if version >= "1.34" else "DynamicResourceAllocation=true"
    release = choose_release(version, gates)
    async with open_bench(tmp_path, NAME, "garbagecollector", release=release) as bench:
        await create_template(bench, labels={"a": "b"}, annotations={"c": "d"})
        pod = await create_pod(bench, "p", OF_TEMPLATE)
        await bench.rest()
        [claim] = bench.all(CLAIMS)
        metadata = claim["metadata"]
        assert metadata["generateName"] == "p-x-" and metadata["labels"] == {"a": "b"}
        assert metadata["annotations"] == {"c": "d", "resource.kubernetes.io/pod-claim-name": "x"}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]}
        assert metadata["ownerReferences"] == [{**owner, "controller": True}]
        assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
        statuses = bench.get("pods", "p")["status"]["resourceClaimStatuses"]
        assert statuses == [{"name": "x", "resourceClaimName": metadata["name"]}]
        await bench.delete("pods", "p")
        await bench.rest()
        assert not bench.names(CLAIMS) and not bench.events()


async def test_it_does_nothing_in_versions_without_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    for number, release in enumerate((choose_release("1.25"), choose_release("1.33"))):
        path = tmp_path / str(number)
        path.mkdir()
        async with open_bench(path, NAME, release=release) as bench:
            assert not any(loop.name == NAME for loop in bench.workloads.loops)


async def test_a_missing_template_is_reported_and_awaited(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=NEWEST) as bench:
        await create_pod(bench, "p", OF_TEMPLATE)
        await bench.rest()
        missing = 'resource claim template "rt": resourceclaimtemplate.resource.k8s.io "rt" not found'
        assert bench.events() == [("FailedResourceClaimCreation", f"PodResourceClaim x: {missing}")]
        await create_template(bench)
        await bench.rest()
        assert len(bench.names(CLAIMS)) == 1


async def test_what_the_version_cannot_allocate_is_not_created(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    release = choose_release("1.34", "DRAPrioritizedList=false")
    async with open_bench(tmp_path, NAME, release=choose_release("1.34")) as bench:
        listed = {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}
        spec = {"spec": {"devices": {"requests": [listed]}}}
        await bench.create(TEMPLATES, {"metadata": {"name": "rt"}, "spec": spec})
    async with open_bench(tmp_path, NAME, release=release) as bench:
        await create_pod(bench, "p", OF_TEMPLATE)
        await bench.rest()
        why = "template includes a prioritized list of subrequests, but the feature is disabled"
        assert bench.events() == [("FailedResourceClaimCreation", f"PodResourceClaim x: {why}")]


async def test_a_claim_that_somebody_deletes_is_created_again(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    other = {"name": "y", "resourceClaimTemplateName": "rt"}
    async with open_bench(tmp_path, NAME, release=NEWEST) as bench:
        await create_template(bench)
        await create_pod(bench, "p", OF_TEMPLATE, other)
        await bench.rest()
        before = bench.names(CLAIMS)
        await bench.delete(CLAIMS, before[0])
        await bench.rest()
        after = bench.names(CLAIMS)
        assert len(after) == 2 and before[0] not in after and before[1] in after
        statuses = bench.get("pods", "p")["status"]["resourceClaimStatuses"]
        assert sorted(one["resourceClaimName"] for one in statuses) == after


async def test_a_claim_that_lost_its_owner_is_replaced(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=NEWEST) as bench:
        await create_template(bench)
        await create_pod(bench, "p", OF_TEMPLATE)
        await bench.rest()
        [name] = bench.names(CLAIMS)
        await bench.patch(CLAIMS, name, {"metadata": {"ownerReferences": None}})
        await bench.patch("pods", "p", {"metadata": {"labels": {"a": "b"}}})
        await bench.rest()
        assert bench.names(CLAIMS) == [
            name
        ]  # as the original, which looks again only if something is missing


async def test_a_claim_is_released_with_its_last_pod(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=NEWEST) as bench:
        await bench.create(CLAIMS, {"metadata": {"name": "rc"}, "spec": SPEC})
        pods = [await create_pod(bench, name, SHARED) for name in ("p", "q")]
        await allocate(bench, "rc", *pods)
        await bench.rest()
        await bench.delete("pods", "p")
        await bench.rest()
        status = bench.get(CLAIMS, "rc")["status"]
        assert "allocation" in status and [one["name"] for one in status["reservedFor"]] == ["q"]
        await bench.patch("pods", "q", {"metadata": {"annotations": {"sim/phase": "Succeeded"}}})
        await bench.rest()
        claim = bench.get(CLAIMS, "rc")
        assert claim["status"] == {} and "finalizers" not in claim["metadata"]


async def test_a_deleted_claim_goes_when_its_pod_is_gone(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=NEWEST) as bench:
        await bench.create(CLAIMS, {"metadata": {"name": "rc"}, "spec": SPEC})
        pod = await create_pod(bench, "p", SHARED)
        await allocate(bench, "rc", pod)
        await bench.delete(CLAIMS, "rc")
        await bench.rest()
        assert "allocation" in bench.get(CLAIMS, "rc")["status"]
        await bench.delete("pods", "p")
        await bench.rest()
        assert not bench.names(CLAIMS)


async def test_an_unused_allocation_ends_only_with_its_claim(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, NAME, release=NEWEST) as bench:
        await bench.create(CLAIMS, {"metadata": {"name": "rc"}, "spec": SPEC})
        await allocate(bench, "rc")
        await bench.rest()
        assert "allocation" in bench.get(CLAIMS, "rc")["status"]
        await bench.delete(CLAIMS, "rc")
        await bench.rest()
        assert not bench.names(CLAIMS)


async def test_the_claim_of_a_finished_pod_goes(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=NEWEST) as bench:
        await create_template(bench)
        pod = await create_pod(bench, "p", OF_TEMPLATE)
        await bench.rest()
        await allocate(bench, bench.names(CLAIMS)[0], pod)
        await bench.rest()
        assert len(bench.names(CLAIMS)) == 1
        await bench.patch("pods", "p", {"metadata": {"annotations": {"sim/phase": "Succeeded"}}})
        await bench.rest()
        assert not bench.names(CLAIMS)


async def test_a_bound_pod_gets_its_reservation_and_strangers_stay(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    stranger = {"apiGroup": "example.com", "resource": "things", "name": "t", "uid": "1"}
    async with open_bench(tmp_path, NAME, release=NEWEST) as bench:
        await bench.create(CLAIMS, {"metadata": {"name": "rc"}, "spec": SPEC})
        await create_pod(bench, "p", SHARED)
        await bench.rest()
        await allocate(bench, "rc")
        await bench.rest()
        reserved = bench.get(CLAIMS, "rc")["status"]["reservedFor"]
        assert [one["name"] for one in reserved] == ["p"]
        await bench.patch(CLAIMS, "rc", {"status": {"reservedFor": [*reserved, stranger]}}, "status")
        await bench.delete("pods", "p")
        await bench.rest()
        status = bench.get(CLAIMS, "rc")["status"]
        assert status["reservedFor"] == [stranger] and "allocation" in status


async def test_a_restart_finds_what_ended_meanwhile(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=NEWEST) as bench:
        await bench.create(CLAIMS, {"metadata": {"name": "rc"}, "spec": SPEC})
        await allocate(bench, "rc", await create_pod(bench, "p", SHARED))
        await bench.rest()
    async with open_bench(tmp_path, release=NEWEST) as bench:
        await bench.delete("pods", "p")
        await bench.rest()
        assert "reservedFor" in bench.get(CLAIMS, "rc")["status"]
    async with open_bench(tmp_path, NAME, release=NEWEST) as bench:
        assert bench.get(CLAIMS, "rc")["status"] == {}


async def test_long_names_are_shortened_in_proportion(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, NAME, release=NEWEST) as bench:
        await create_template(bench)
        await create_pod(bench, "p" * 90, {"name": "x" * 30, "resourceClaimTemplateName": "rt"})
        await bench.rest()
        [name] = bench.names(CLAIMS)
        assert name[:-5] == f"{'p' * 42}-{'x' * 14}"
