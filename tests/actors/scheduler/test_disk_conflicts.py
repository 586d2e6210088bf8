"""Pods that mount the same disk cannot be on one node; pods with thousands of disks are compared as sets."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.names import KUBERNETES
from rewound.actors.scheduler.pods import PodFacts, Shapes
from rewound.actors.versions.features import V1_25

READ = {"readOnly": True}


def pod(*volumes: dict[str, Any]) -> PodFacts:
    metadata = {"namespace": "default", "name": "p", "uid": "u"}
    made = {"metadata": metadata, "spec": {"containers": [], "volumes": list(volumes)}}
    return Shapes(KUBERNETES, V1_25.features).facts(made)


def gce(name: str, **more: Any) -> dict[str, Any]:
    return {"name": "v", "gcePersistentDisk": {"pdName": name, **more}}


def aws(name: str, **more: Any) -> dict[str, Any]:
    return {"name": "v", "awsElasticBlockStore": {"volumeID": name, **more}}


def iscsi(name: str, **more: Any) -> dict[str, Any]:
    return {"name": "v", "iscsi": {"iqn": name, **more}}


def rbd(image: str, *monitors: str, **more: Any) -> dict[str, Any]:
    return {"name": "v", "rbd": {"image": image, "monitors": list(monitors), **more}}


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        (gce("a"), gce("a"), True),
        (gce("a"), gce("b"), False),
        (gce("a", **READ), gce("a"), True),
        (gce("a", **READ), gce("a", **READ), False),
        (aws("a", **READ), aws("a", **READ), True),
        (iscsi("a"), iscsi("a", **READ), True),
        (iscsi("a"), gce("a"), False),
        (rbd("a", "m", "n"), rbd("a", "n", "o"), True),
        (rbd("a", "m"), rbd("a", "n"), False),
        (rbd("a", "m"), rbd("a", "m", pool="rbd"), True),
        (rbd("a", "m"), rbd("a", "m", pool="other"), False),
        (rbd("a", "m", **READ), rbd("a", "m", **READ), False),
    ],
)
def test_disks_conflict_unless_both_pods_only_read_them(
    one: dict[str, Any], other: dict[str, Any], *, conflict: bool
) -> None:
    first, second = pod(gce("x1"), one), pod(other, gce("x2")).shape.disks
    assert first.shape.disks.conflict_with(second) is conflict
    assert second.conflict_with(first.shape.disks) is conflict


def test_pod_without_disks_conflicts_with_none() -> None:
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    assert not pod(claim).shape.disks.conflict_with(pod(claim).shape.disks)
