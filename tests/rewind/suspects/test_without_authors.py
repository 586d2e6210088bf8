"""A recording that knows no authors has the same first suspect: what controllers made follows from what people did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.journal_commands import Step, write_history
from tests.rewind.suspects.test_bounds import suspects

WAITING = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "image web:typo"}}}
CONTROLLER = "kube-controller-manager"


def owned_by(kind: str, name: str, *, controller: bool) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"{kind}-{name}"}
    return {"ownerReferences": [{**owner, "controller": controller}]}


def rollout(manager: str, *, controller: bool) -> list[Step]:
    """A person changes the image of a Deployment; its controller makes a ReplicaSet, and that one a pod."""

    def of(image: str) -> dict[str, Any]:
        return {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}

    def step(name: str, type_: str, content: dict[str, Any], by: str, **metadata: Any) -> Step:
        uid = f"{'Deployment' if type_.startswith('d') else 'ReplicaSet'}-{name}"
        return Step(name, content, "shop", type_, "recorded", "", by, {"uid": uid, **metadata})

    of_deployment = owned_by("Deployment", "web", controller=controller)
    of_set = owned_by("ReplicaSet", "web-1", controller=controller)
    pod = {"spec": of("web:typo")["template"]["spec"]}
    return [
        step("web", "deployments.apps", {"spec": of("web:1")}, "kubectl"),
        step("web", "deployments.apps", {"spec": of("web:typo")}, "kubectl"),
        step("web-1", "replicasets.apps", {"spec": of("web:typo")}, manager, **of_deployment),
        step("web", "pods", {**pod, "status": {"phase": "Pending"}}, manager, **of_set),
        step(
            "web",
            "pods",
            {**pod, "status": {"phase": "Pending", "containerStatuses": [WAITING]}},
            "kubelet",
            **of_set,
        ),
    ]


@pytest.mark.parametrize(("manager", "controller"), [(CONTROLLER, False), ("a-controller", True)])
def test_a_change_is_before_what_follows_from_it(tmp_path: Path, manager: str, controller: bool) -> None:
    found = ranked(tmp_path / "known", manager, controller=controller)
    first = found[0]
    assert (first["type"], first["name"], first["action"]) == ("deployments.apps", "web", "changed")
    # The pod weighs less than one of which nothing says that a controller made it.
    unknown = ranked(tmp_path / "unknown", "somebody", controller=False)
    assert created(found) < 0.5 * created(unknown)


def ranked(folder: Path, manager: str, *, controller: bool) -> list[dict[str, Any]]:
    write_history(folder, rollout(manager, controller=controller))
    items: list[dict[str, Any]] = suspects(folder)["items"]
    return items


def created(items: list[dict[str, Any]]) -> float:
    """The weight of the creation of the pod."""
    return next(float(one["weight"]) for one in items if (one["type"], one["action"]) == ("pods", "created"))
