"""Audit events of pods and templates have the annotations of PodSecurity."""

from __future__ import annotations

from typing import Any

from tests.gateway.audit.auditing import audited, rules

PREFIX = "pod-security.cluster.io/"
HOST = {"hostNetwork": True, "containers": [{"name": "c", "image": "i"}]}
VIOLATION = 'would violate PodSecurity "baseline:v1.20": host namespaces (hostNetwork=true)'


async def test_pods_and_templates_are_annotated() -> None:
    policy = rules(
        "level: Metadata, verbs: [create], resources: [{group: '', resources: [pods, podtemplates]}]"
    )
    async with audited(policy) as audit:
        api = audit.api
        modes = {"enforce": "privileged", "audit": "baseline", "audit-version": "v1.20"}
        labels = {f"{PREFIX}{mode}": value for mode, value in modes.items()}
        await api.create("namespaces", {"metadata": {"name": "audited", "labels": labels}})
        labels = {f"{PREFIX}enforce": "baseline"}
        await api.create("namespaces", {"metadata": {"name": "enforced", "labels": labels}})
        for namespace, plural, content, status in (
            ("default", "pods", {"spec": HOST}, 201),
            ("audited", "pods", {"spec": HOST}, 201),
            ("audited", "podtemplates", {"template": {"spec": HOST}}, 201),
            ("enforced", "pods", {"spec": HOST}, 403),
        ):
            body: dict[str, Any] = {"metadata": {"name": "p"}, **content}
            (await api.ask("POST", api.path(plural, namespace), body)).expect(status)
        await api.finish()
        found = [
            {
                key.removeprefix(PREFIX): value
                for key, value in event["annotations"].items()
                if key.startswith(PREFIX)
            }
            for event in audit.events
            if event["stage"] == "ResponseComplete"
        ]
    assert found == [
        {"enforce-policy": "privileged:latest"},
        {"enforce-policy": "privileged:latest", "audit-violations": VIOLATION},
        {"audit-violations": VIOLATION},
        {"enforce-policy": "baseline:latest"},
    ]
