"""Quotas and LimitRanges also limit large objects, which are handled in a thread."""

from __future__ import annotations

from typing import Any

from rewound.actors.runtime.large_work import LARGE_BYTES
from tests.gateway.api import served

HERE = "/api/v1/namespaces/default"


def large(name: str, cpu: str) -> dict[str, Any]:
    annotations = {"text": "x" * (LARGE_BYTES + 1)}
    resources = {"limits": {"cpu": cpu}}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"containers": containers}}


async def test_large_pods_are_limited() -> None:
    async with served() as api:
        limits = [{"type": "Container", "default": {"memory": "1Gi"}, "max": {"cpu": "4"}}]
        for plural, spec in (("resourcequotas", {"hard": {"cpu": "3"}}), ("limitranges", {"limits": limits})):
            (await api.ask("POST", f"{HERE}/{plural}", {"metadata": {"name": "a"}, "spec": spec})).expect(201)
        made = (await api.ask("POST", f"{HERE}/pods", large("p", "2"))).expect(201)
        assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "1Gi"}
        refused = (await api.ask("POST", f"{HERE}/pods", large("q", "2"))).expect(403)
        assert refused["message"].endswith("exceeded quota: a, requested: cpu=2, used: cpu=2, limited: cpu=3")
        refused = (await api.ask("POST", f"{HERE}/pods", large("q", "5"))).expect(403)
        assert refused["message"].endswith("maximum cpu usage per Container is 4, but limit is 5")
        (await api.ask("POST", f"{HERE}/pods", large("q", "1"))).expect(201)
