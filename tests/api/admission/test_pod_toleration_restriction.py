"""PodTolerationRestriction: default and allowed tolerations of namespaces and of the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.actors.object_store import Refused
from tests.api.admission.configured import configured
from tests.gateway.api import Api, served

DEFAULT, ALLOWED = (
    f"scheduler.alpha.cluster.io/{one}" for one in ("defaultTolerations", "tolerationsWhitelist")
)
MERGE = {"content-type": "application/merge-patch+json"}
OF_NODES = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
DEDICATED = {"key": "dedicated", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
MEMORY = {"key": "node.cluster.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}


@asynccontextmanager
async def started(**changed: Any) -> AsyncIterator[Api]:
    """A server with a namespace in which pods are BestEffort: in `default` they get a CPU request."""
    async with served(enable_admission_plugins="PodTolerationRestriction", **changed) as api:
        await api.create("namespaces", {"metadata": {"name": "team"}})
        yield api


async def tolerated(api: Api, name: str, *own: dict[str, Any], cpu: str = "") -> list[Any]:
    """The tolerations of a pod, without the two that every pod gets."""
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}], "tolerations": list(own)}
    made = await api.create("pods", {"metadata": {"name": name}, "spec": spec}, "team")
    return [one for one in made["spec"]["tolerations"] if one.get("tolerationSeconds") != 300]


async def annotate(api: Api, **lists: Any) -> None:
    texts = {
        key: value if isinstance(value, str | None) else orjson.dumps(value).decode()
        for key, value in lists.items()
    }
    annotations = {{"default": DEFAULT, "allowed": ALLOWED}[key]: text for key, text in texts.items()}
    body = {"metadata": {"annotations": annotations}}
    (await api.ask("PATCH", "/api/v1/namespaces/team", body, headers=MERGE)).expect(200)


async def test_default_tolerations_are_added_and_allowed_ones_are_enforced() -> None:
    async with started() as api:
        await annotate(api, default=[DEDICATED])
        assert await tolerated(api, "a") == [DEDICATED]
        wider = {"key": "dedicated", "operator": "Exists"}
        assert await tolerated(api, "b", wider) == [wider]
        await annotate(api, allowed=[wider, OF_NODES])
        assert await tolerated(api, "c") == [DEDICATED]
        with pytest.raises(Refused) as refused:
            await tolerated(api, "d", {"key": "other", "operator": "Exists"})
        assert (refused.value.reason, refused.value.message) == (
            "Forbidden",
            'pods "d" is forbidden: pod tolerations (possibly merged with namespace default tolerations) '
            "conflict with its namespace whitelist",
        )
        with pytest.raises(Refused, match="namespace whitelist"):
            await tolerated(
                api, "e", {**OF_NODES, "key": "node.cluster.io/not-ready", "tolerationSeconds": 301}
            )


async def test_pods_with_requests_tolerate_memory_pressure() -> None:
    async with started() as api:
        assert await tolerated(api, "a") == []
        assert await tolerated(api, "b", cpu="1") == [MEMORY]


async def test_lists_of_the_cluster_apply_without_annotations(tmp_path: Path) -> None:
    admission = configured(
        tmp_path,
        "PodTolerationRestriction",
        apiVersion="podtolerationrestriction.admission.cluster.io/v1alpha1",
        kind="Configuration",
        default=[DEDICATED],
        whitelist=[DEDICATED, OF_NODES],
    )
    async with started(admission=admission) as api:
        assert await tolerated(api, "a") == [DEDICATED]
        with pytest.raises(Refused, match="conflict with its cluster whitelist"):
            await tolerated(api, "b", {"key": "other", "operator": "Exists"})
        await annotate(api, default="", allowed="")  # empty lists of the namespace: no default, all allowed
        assert await tolerated(api, "c") == []
        assert await tolerated(api, "d", MEMORY) == [MEMORY]


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"key": 1}]', '[{"tolerationSeconds": "1"}]'])
async def test_invalid_annotation_refuses_pods_with_403(text: str) -> None:
    async with started() as api:
        await annotate(api, default=text)
        with pytest.raises(Refused, match=f"invalid annotation: {DEFAULT}") as refused:
            await tolerated(api, "a")
        assert refused.value.reason == "Forbidden"
