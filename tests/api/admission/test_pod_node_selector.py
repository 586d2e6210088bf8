"""PodNodeSelector: selectors of namespaces, of the configuration, and what contradicts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.actors.object_store import Refused
from tests.api.admission.configured import configured
from tests.gateway.api import Api, served

KEY = "scheduler.alpha.cluster.io/node-selector"
MERGE = {"content-type": "application/merge-patch+json"}
ON = {"enable_admission_plugins": "PodNodeSelector"}


async def selected(api: Api, name: str, own: dict[str, str] | None = None, namespace: str = "default") -> Any:
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
    if own is not None:
        spec["nodeSelector"] = own
    made = await api.create("pods", {"metadata": {"name": name}, "spec": spec}, namespace)
    return made["spec"].get("nodeSelector")


async def annotate(api: Api, text: str | None, namespace: str = "default") -> None:
    body = {"metadata": {"annotations": {KEY: text}}}
    (await api.ask("PATCH", f"/api/v1/namespaces/{namespace}", body, headers=MERGE)).expect(200)


async def test_selector_of_the_namespace_is_merged_or_refuses() -> None:
    async with served(**ON) as api:
        assert await selected(api, "before", {"zone": "a"}) == {"zone": "a"}
        await annotate(api, " env = prod ,disk=ssd")
        assert await selected(api, "a") == {"disk": "ssd", "env": "prod"}
        assert await selected(api, "b", {"env": "prod", "zone": "a"}) == {
            "disk": "ssd",
            "env": "prod",
            "zone": "a",
        }
        with pytest.raises(Refused) as refused:
            await selected(api, "c", {"env": "test"})
        assert refused.value.message == (
            'pods "c" is forbidden: pod node label selector conflicts with its namespace node label selector'
        )


@pytest.mark.parametrize(
    ("text", "why"), [("env", "invalid selector: [env]"), ("a b=c", "invalid selector: a b=c: name part")]
)
async def test_invalid_annotation_refuses_pods_with_403(text: str, why: str) -> None:
    async with served(**ON) as api:
        await annotate(api, text)
        with pytest.raises(Refused) as refused:
            await selected(api, "a")
        assert refused.value.reason == "Forbidden"
        assert refused.value.message.startswith(f'pods "a" is forbidden: {why}')
        await annotate(api, None)
        assert await selected(api, "a") is None


async def test_cluster_default_and_allowed_labels_of_a_namespace(tmp_path: Path) -> None:
    selectors = {"clusterDefaultNodeSelector": "env=dev", "limited": "env=dev,zone=a", "default": ""}
    admission = configured(tmp_path, "PodNodeSelector", podNodeSelectorPluginConfig=selectors)
    async with served(**ON, admission=admission) as api:
        await api.create("namespaces", {"metadata": {"name": "limited"}})
        assert await selected(api, "a") == {"env": "dev"}
        assert await selected(api, "b", {"any": "label"}) == {"any": "label", "env": "dev"}
        await annotate(api, "")  # an annotation replaces the default, even an empty one
        assert await selected(api, "c") is None
        assert await selected(api, "a", {"zone": "a"}, "limited") == {"env": "dev", "zone": "a"}
        for name, own in (("b", {"zone": "b"}), ("c", {"any": "label"})):
            with pytest.raises(Refused, match="labels conflict with its namespace whitelist"):
                await selected(api, name, own, "limited")
