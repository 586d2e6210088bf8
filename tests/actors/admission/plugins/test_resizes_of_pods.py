"""A pod is not resized beyond its node."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.admission.plugins.pod_resize_validator import PodResizeValidator
from rewound.actors.admission.request import UPDATE, AdmissionRequest
from rewound.actors.errors import Cause, Forbidden
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.admission.admitted import CONTEXT
from tests.actors.object_store import open_store

NEWEST = choose_release("1.36").features


def pod(cpu: str, memory: str = "1Gi", node: str = "n", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container], "nodeName": node, **spec}}


async def test_requests_must_fit_the_whole_node() -> None:
    async with open_store() as store:
        allocatable = {"cpu": "2", "memory": "4Gi"}
        labels = {KUBERNETES.key("os"): "windows"}
        await store.create("nodes", {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}})
        await store.create("nodes", {"metadata": {"name": "other", "labels": labels}})
        plugin = PodResizeValidator(KUBERNETES, store.journal, store.feed, NEWEST)
        definition = store.definition("pods")

        def resize(new: dict[str, Any]) -> None:
            old = pod("1", node=new["spec"]["nodeName"])
            request = AdmissionRequest(
                UPDATE, definition, "ns", "p", "resize", new, old, CONTEXT.user, False, CONTEXT
            )
            plugin.validate(request)

        resize(pod("2", "4Gi"))
        resize(pod("64", node=""))
        init = {"name": "setup", "resources": {"requests": {"cpu": "3"}}}
        for sent, text in (
            (pod("2001m"), "cpu, requested: 2001, allocatable: 2000"),
            (
                pod("3", "5Gi"),
                "cpu, requested: 3000, allocatable: 2000; memory, requested: 5368709120, allocatable: 4294967296",
            ),
            (pod("1", initContainers=[init]), "cpu, requested: 3000, allocatable: 2000"),
            (pod("1", resources={"requests": {"cpu": "4"}}), "cpu, requested: 4000, allocatable: 2000"),
            (pod("2", overhead={"cpu": "1m"}), "cpu, requested: 2001, allocatable: 2000"),
        ):
            with pytest.raises(Forbidden) as refused:
                resize(sent)
            assert str(refused.value) == (
                f'pods "p" is forbidden: node didn\'t have enough allocatable resources: {text}'
            )
            assert refused.value.causes == (Cause("NodeCapacity", ""),)
        with pytest.raises(Forbidden, match='only supported on linux nodes, node "other" is "windows"'):
            resize(pod("2", node="other"))
        with pytest.raises(Forbidden, match='node "gone" not found'):
            resize(pod("2", node="gone"))


async def test_earlier_versions_let_the_node_decide() -> None:
    async with open_store() as store:
        for version, on in (("1.35", False), ("1.36", True)):
            features = choose_release(version).features
            plugin = PodResizeValidator(KUBERNETES, store.journal, store.feed, features)
            assert bool(plugin.validates) is on
