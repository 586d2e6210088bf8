"""Resources that the ResourceQuota configuration limits can be used only if a quota covers them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewound.actors.admission.configuration import AdmissionConfigurationError, PluginConfiguration
from rewound.actors.admission.plugins.quota.resource_quota import parse_limited
from rewound.actors.names import CLUSTER
from tests.api.admission.configured import configured
from tests.cases import cases
from tests.gateway.api import served

GOLD = "gold.storageclass.storage.cluster.io/requests.storage"
CRITICAL = {"scopeName": "PriorityClass", "operator": "In", "values": ["critical"]}
TYPE = {"apiVersion": "apiserver.config.cluster.io/v1", "kind": "ResourceQuotaConfiguration"}


def claim(name: str, storage_class: str) -> dict[str, Any]:
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources, "storageClassName": storage_class}
    return {"metadata": {"name": name}, "spec": spec}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


async def test_limited_resources_need_a_quota(tmp_path: Path) -> None:
    limited = [
        {"resource": "persistentvolumeclaims", "matchContains": [GOLD]},
        {"resource": "pods", "matchScopes": [CRITICAL]},
    ]
    admission = configured(tmp_path, "ResourceQuota", **TYPE, limitedResources=limited)
    async with served(admission=admission) as api:
        here, priority = "/api/v1/namespaces/default", "/apis/scheduling.cluster.io/v1/priorityclasses"
        (await api.ask("POST", priority, {"metadata": {"name": "critical"}, "value": 5})).expect(201)
        (await api.ask("POST", f"{here}/persistentvolumeclaims", claim("a", "tin"))).expect(201)
        (await api.ask("POST", f"{here}/pods", pod("a"))).expect(201)
        refused = (await api.ask("POST", f"{here}/persistentvolumeclaims", claim("b", "gold"))).expect(403)
        assert refused["message"] == (
            f'persistentvolumeclaims "b" is forbidden: insufficient quota to consume: {GOLD}'
        )
        critical = pod("b", priorityClassName="critical")
        refused = (await api.ask("POST", f"{here}/pods", critical)).expect(403)
        assert refused["message"] == (
            'pods "b" is forbidden: insufficient quota to match these scopes: [{PriorityClass In [critical]}]'
        )
        for name, spec in (
            ("gold", {"hard": {GOLD: "1Gi"}}),
            ("critical", {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [CRITICAL]}}),
        ):
            quota = {"metadata": {"name": name}, "spec": spec}
            (await api.ask("POST", f"{here}/resourcequotas", quota)).expect(201)
        (await api.ask("POST", f"{here}/persistentvolumeclaims", claim("b", "gold"))).expect(201)
        (await api.ask("POST", f"{here}/pods", critical)).expect(201)
        refused = (await api.ask("POST", f"{here}/pods", {**critical, "metadata": {"name": "c"}})).expect(403)
        assert "exceeded quota: critical, requested: pods=1, used: pods=1" in refused["message"]


@cases(
    ("limited", "error"),
    [
        ([{"matchContains": ["cpu"]}], "limitedResources[0].resource: is required"),
        ({}, None),
        ({"resource": "pods"}, "limitedResources: must be a list"),
        (
            [{"resource": "pods", "matchContains": "cpu"}],
            "limitedResources[0].matchContains: must be a list of",
        ),
        (
            [{"resource": "pods", "matchScopes": [{"scopeName": "Other"}]}],
            "limitedResources[0].matchScopes[0].scopeName: must be one of",
        ),
    ],
)
def test_configuration_is_checked(limited: Any, error: str | None) -> None:
    given = PluginConfiguration(Path("f"), "", {**TYPE, "limitedResources": limited})
    if error is None:
        assert parse_limited(CLUSTER, given) == ()
        return
    with pytest.raises(AdmissionConfigurationError) as refused:
        parse_limited(CLUSTER, given)
    assert error in str(refused.value)
