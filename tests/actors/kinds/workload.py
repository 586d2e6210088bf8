"""Minimal documents of workloads, with the parts that a test needs."""

from __future__ import annotations

from typing import Any

LABELS = {"app": "x"}


def template(labels: Any = LABELS, **spec: Any) -> dict[str, Any]:
    whole = {"containers": [{"name": "c", "image": "img:1"}], **spec}
    return {"metadata": {"labels": labels}, "spec": whole}


def workload(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template(), **spec},
    }


def with_status(document: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {**document, "status": status}
