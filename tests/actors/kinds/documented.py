"""A valid document for each kind that the API documentation describes field by field, and functions to change it.

Tests name fields by path, such as `spec.updateStrategy.type`.
"""

from __future__ import annotations

import copy
from typing import Any

LABELS = {"matchLabels": {"app": "x"}}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
ANY = {"rule": "RunAsAny"}
TERM = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}

VALID: dict[str, dict[str, Any]] = {
    "clusterroles": {},
    "statefulsets": {"spec": {"serviceName": "s", "selector": LABELS, "template": TEMPLATE}},
    "configmaps": {},
    "secrets": {},
    "pods": {"spec": {"serviceAccountName": "s", "containers": [{"name": "c", "image": "i"}]}},
    "persistentvolumeclaims": {"spec": CLAIM},
    "persistentvolumes": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/d"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [TERM]}},
        }
    },
    "csidrivers": {"spec": {}},
    "csinodes": {"spec": {"drivers": [{"name": "d", "nodeID": "n"}]}},
    "csistoragecapacities": {"storageClassName": "fast"},
    "podsecuritypolicies": {
        "spec": {"seLinux": ANY, "runAsUser": ANY, "supplementalGroups": ANY, "fsGroup": ANY}
    },
}


def valid_document(plural: str, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """A valid document with other values at some paths; `...` removes a field."""
    document = copy.deepcopy({"metadata": {"name": "a"}, **VALID[plural]})
    for path, value in (changes or {}).items():
        set_at(document, path, value)
    return document


def set_at(document: Any, path: str, value: Any) -> None:
    *parents, name = path.split("/") if "/" in path else path.split(".")
    for part in parents:
        document = document[int(part)] if part.isdigit() else document.setdefault(part, {})
    if value is ...:
        del document[name]
    else:
        document[name] = value


def value_at(document: Any, path: str) -> Any:
    """The value at a path; None where there is none."""
    for part in path.split("/") if "/" in path else path.split("."):
        if isinstance(document, list):
            document = document[int(part)]
        elif part not in document:
            return None
        else:
            document = document[part]
    return document
