"""Objects that several measurements share."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import CLUSTER

CATALOG = built_in(CLUSTER)


def definition(plural: str, group: str = "", version: str = "v1") -> Definition:
    found = CATALOG.find(group, version, plural)
    assert found is not None
    return found


def config_map() -> Any:
    """An object of 1 kB without defaults."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default", "labels": {"app": "bench"}},
        "data": {"payload": "x" * 1000},
    }


def pod(containers: int) -> Any:
    """A pod as a chart makes it: variables, ports, probes, resources, mounts and a security context."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "labels": {"app": "bench"}},
        "spec": {
            "containers": [_container(number) for number in range(containers)],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "settings"}}],
            "serviceAccountName": "default",
        },
    }


def _container(number: int) -> Any:
    port = 8000 + number
    return {
        "name": f"c{number}",
        "image": "registry.example/app:1.2.3",
        "args": ["--verbose", f"--port={port}"],
        "ports": [{"name": f"p{number}", "containerPort": port}],
        "env": [
            *({"name": f"E{index}", "value": "v"} for index in range(4)),
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "key"}}},
        ],
        "resources": {"limits": {"memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
        "volumeMounts": [
            {"name": "v", "mountPath": "/v"},
            {"name": "c", "readOnly": True, "mountPath": "/c"},
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": port}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": port}, "periodSeconds": 5},
        "securityContext": {"runAsNonRoot": True, "allowPrivilegeEscalation": False},
    }
