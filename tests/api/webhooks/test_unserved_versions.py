"""matchPolicy Equivalent: a version that is no longer served is no longer equivalent."""

from __future__ import annotations

import pytest

from tests.api.webhooks.hooking import hooking

AUTOSCALER = {
    "metadata": {"name": "h"},
    "spec": {
        "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
    },
}
RULE = {
    "operations": ["CREATE"],
    "apiGroups": ["autoscaling"],
    "apiVersions": ["v1"],
    "resources": ["horizontalpodautoscalers"],
}


@pytest.mark.parametrize(("served", "called"), [("true", ["/allow"]), ("false", [])])
async def test_equivalent_version_must_be_served(served: str, called: list[str]) -> None:
    async with hooking(changed={"runtime_config": f"autoscaling/v1={served}"}) as hooks:
        await hooks.configure("validating", hooks.hook("a.example.com", rules=[RULE]))
        path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
        (await hooks.api.ask("POST", path, AUTOSCALER)).expect(201)
        assert hooks.called() == called
