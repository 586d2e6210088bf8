"""Objects for the tests of quotas."""

from __future__ import annotations

from typing import Any

from tests.actors.object_store import Refused, Store

Document = dict[str, Any]


async def add_quota(store: Store, hard: Document, name: str = "q", **spec: Any) -> Document:
    return await store.create("resourcequotas", {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})


def config_map(name: str) -> Document:
    return {"metadata": {"name": name}}


def pod(name: str = "p", *containers: Document, **spec: Any) -> Document:
    named = [
        {"name": f"c{index}", "image": "i", "resources": one} for index, one in enumerate(containers or [{}])
    ]
    return {"metadata": {"name": name}, "spec": {"containers": named, **spec}}


def service(name: str, ports: int = 1, **spec: Any) -> Document:
    listed = [{"name": f"p{number}", "port": number} for number in range(1, ports + 1)]
    return {"metadata": {"name": name}, "spec": {"ports": listed, **spec}}


def claim(name: str, size: str, **spec: Any) -> Document:
    resources = {"requests": {"storage": size}}
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec},
    }


async def refusal(store: Store, plural: str, body: Document, **query: Any) -> str:
    """Why the object cannot be created, "" if it can."""
    try:
        await store.create(plural, body, **query)
    except Refused as refused:
        reason, message = refused.reason, refused.message
    else:
        return ""
    start = f'{plural} "{body["metadata"]["name"]}" is forbidden: '
    assert reason == "Forbidden"
    assert message.startswith(start)
    return message.removeprefix(start)
