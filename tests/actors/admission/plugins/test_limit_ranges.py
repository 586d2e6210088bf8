"""LimitRanges set the defaults of containers, and refuse pods and claims outside their limits."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.admission.plugins.limit_ranger import (
    LimitRanger,
    LimitRanges,
    parse_limit_range,
    pod_violations,
)
from rewound.actors.admission.request import CREATE
from rewound.actors.names import CLUSTER
from rewound.actors.profile import Rules
from tests.actors.admission.admitted import admitted
from tests.actors.object_store import Refused, Store, open_store
from tests.cases import cases

Document = dict[str, Any]
NOTE = "cluster.io/limit-ranger"


def pod(*containers: Document, name: str = "p", **spec: Any) -> Document:
    named = [{"name": f"c{index}", "image": "i", "resources": one} for index, one in enumerate(containers)]
    return {"metadata": {"name": name}, "spec": {"containers": named, **spec}}


def init(resources: Document) -> list[Document]:
    return [{"name": "i0", "image": "i", "resources": resources}]


def claim(size: str, name: str = "v") -> Document:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name}, "spec": spec}


async def add(store: Store, *limits: Document, name: str = "l") -> None:
    await store.create("limitranges", {"metadata": {"name": name}, "spec": {"limits": limits}}, "default")


async def refusal(store: Store, plural: str, body: Document) -> str:
    with pytest.raises(Refused) as refused:
        await store.create(plural, body)
    assert refused.value.reason == "Forbidden"
    start = f'{plural} "{body["metadata"]["name"]}" is forbidden: '
    assert refused.value.message.startswith(start)
    return refused.value.message.removeprefix(start)


async def test_containers_and_init_containers_get_the_defaults() -> None:
    async with open_store() as store:
        await add(store, {"type": "Container", "default": {"memory": "2Gi", "cpu": "2"}})
        made = await store.create(
            "pods", pod({}, {"limits": {"cpu": "1"}}, initContainers=init({"requests": {"memory": "1Gi"}}))
        )
        first, second = (one["resources"] for one in made["spec"]["containers"])
        full = {"cpu": "2", "memory": "2Gi"}
        assert first == {"limits": full, "requests": full}
        assert second == {
            "limits": {"cpu": "1", "memory": "2Gi"},
            "requests": {"cpu": "1", "memory": "2Gi"},
        }
        assert made["spec"]["initContainers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}
        assert made["metadata"]["annotations"] == {
            NOTE: "LimitRanger plugin set: cpu, memory request for container c0; cpu, memory limit for "
            "container c0; memory request for container c1; memory limit for container c1; "
            "cpu request for init container i0; cpu, memory limit for init container i0"
        }
        assert made["status"]["qosClass"] == "Burstable"


async def test_first_limit_range_by_name_gives_the_default() -> None:
    async with open_store() as store:
        await add(store, {"type": "Container", "default": {"cpu": "2"}}, name="b")
        await add(store, {"type": "Container", "default": {"cpu": "1"}}, name="a")
        made = await store.create("pods", pod({}, name="p"))
        assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}
        await store.delete("limitranges", "a")
        made = await store.create("pods", pod({}, name="q"))
        assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2"}


@cases(
    ("limit", "containers", "why"),
    [
        (
            {"min": {"cpu": "100m"}},
            [{"requests": {"cpu": "50m"}}],
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            {"min": {"cpu": "2", "memory": "1Gi"}, "max": {"memory": "2Gi"}},
            [
                {"requests": {"cpu": "1"}, "limits": {"memory": "3Gi"}},
                {"limits": {"cpu": "1", "memory": "1Gi"}},
            ],
            "[minimum cpu usage per Container is 2, but request is 1, "
            "maximum memory usage per Container is 2Gi, but limit is 3Gi]",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            [{"requests": {"cpu": "300m"}, "limits": {"cpu": "1"}}],
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.333333",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            [{}],
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            [{"requests": {"cpu": "1"}}],
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
        (
            {"type": "Pod", "min": {"memory": "1Gi"}},
            [{"requests": {"memory": "1Mi"}}, {}],
            "minimum memory usage per Pod is 1Gi.  No request is specified",
        ),
        (
            {"type": "Pod", "max": {"memory": "1Gi"}},
            [{"limits": {"memory": "600Mi"}}, {"limits": {"memory": "600Mi"}}],
            "maximum memory usage per Pod is 1Gi, but limit is 1258291200",
        ),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            [{"requests": {"cpu": "1"}}],
            "maximum cpu usage per Pod is 1.  No limit is specified",
        ),
    ],
)
async def test_pod_outside_the_limits_is_refused(limit: Document, containers: Any, why: str) -> None:
    async with open_store() as store:
        await add(store, {"type": "Container", **limit})
        assert await refusal(store, "pods", pod(*containers)) == why


def test_pod_at_the_limits_passes() -> None:
    items = [
        {"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}},
        {"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "4"}, "maxLimitRequestRatio": {"cpu": "2"}},
    ]
    limit_range = parse_limit_range({"spec": {"limits": items}})
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    assert pod_violations(limit_range, pod(resources, resources)) == ""
    assert pod_violations(limit_range, pod(resources, resources, initContainers=init(resources))) == ""
    large = {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}
    refused = pod_violations(limit_range, pod(resources, initContainers=init(large)))
    assert refused == "maximum cpu usage per Container is 2, but limit is 4"


async def test_claims_are_checked_when_they_are_created_and_updated() -> None:
    async with open_store() as store:
        made = await store.create("persistentvolumeclaims", claim("9Gi"))
        await add(
            store, {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}}
        )
        small = await refusal(store, "persistentvolumeclaims", claim("1Mi", "w"))
        assert small == "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"
        await store.create("persistentvolumeclaims", claim("5Gi", "x"))
        labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
        with pytest.raises(
            Refused, match="maximum storage usage per PersistentVolumeClaim is 5Gi, but reques"
        ):
            await store.replace("persistentvolumeclaims", labelled)
        await store.delete("persistentvolumeclaims", "v")
        deleted = await store.get("persistentvolumeclaims", "v")
        metadata = {**deleted["metadata"], "finalizers": []}
        await store.replace("persistentvolumeclaims", {**deleted, "metadata": metadata})


async def test_updates_of_pods_are_not_checked() -> None:
    async with open_store() as store:
        made = await store.create("pods", pod({}))
        await add(store, {"type": "Container", "min": {"cpu": "4"}})
        labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
        changed = await store.replace("pods", labelled)
        assert changed["spec"] == made["spec"]


async def test_containers_in_default_request_a_tenth_of_a_cpu() -> None:
    async with open_store() as store:
        made = await store.create("pods", pod({}, {"limits": {"cpu": "2"}}))
        first, second = (one["resources"] for one in made["spec"]["containers"])
        assert first == {"requests": {"cpu": "100m"}}
        assert second["requests"] == {"cpu": "2"}
        assert made["metadata"]["annotations"] == {
            NOTE: "LimitRanger plugin set: cpu request for container c0"
        }
        elsewhere = await store.create("pods", pod({}), "cluster-public")
        assert elsewhere["spec"]["containers"][0]["resources"] == {}
        await add(store, {"type": "Pod", "max": {"memory": "1Gi"}})
        limited = await store.create("pods", pod({"limits": {"memory": "1Mi"}}, name="q"))
        assert limited["spec"]["containers"][0]["resources"]["requests"] == {"memory": "1Mi"}


async def test_by_the_other_rule_there_is_no_request_without_limit_range() -> None:
    async with open_store() as store:
        for rules, requests in ((Rules(), {"cpu": "100m"}), (Rules(default_cpu="none"), None)):
            plugin = LimitRanger(CLUSTER, LimitRanges(rules, store.journal, store.feed))
            made = admitted(plugin, store.definition("pods"), CREATE, pod({}), namespace="default")
            assert made["spec"]["containers"][0]["resources"].get("requests") == requests


async def test_limit_ranges_apply_after_a_restart() -> None:
    async with open_store() as store:
        await add(store, {"type": "Container", "max": {"cpu": "1"}})
        await store.restart()
        assert "but limit is 2" in await refusal(store, "pods", pod({"limits": {"cpu": "2"}}))
