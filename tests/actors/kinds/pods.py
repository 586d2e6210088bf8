"""Short pod documents for tests: a valid pod with one change, and the causes of its refusal."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Causes, Definitions

CONTAINER = {"name": "c", "image": "img:1"}
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
    "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def pod(*, metadata: Any = None, status: Any = None, **spec: Any) -> dict[str, Any]:
    document = {
        "metadata": {"name": "a", **(metadata or {})},
        "spec": {"containers": [CONTAINER], **spec},
    }
    return {**document, "status": status} if status else document


def create_causes(kinds: Definitions, **parts: Any) -> Causes:
    """The causes for which a create of a pod with these parts is refused; empty if it is valid."""
    return kinds.create_causes("pods", pod(**parts))


def container_causes(kinds: Definitions, **parts: Any) -> Causes:
    """The causes about a pod's only container, with fields relative to it."""
    causes = create_causes(kinds, containers=[{**CONTAINER, **parts}])
    return [(field.removeprefix("spec.containers[0]."), text) for field, text in causes]


def volume_causes(kinds: Definitions, **source: Any) -> Causes:
    """The causes about a pod's only volume, with fields relative to it."""
    causes = create_causes(kinds, volumes=[{"name": "v", **source}])
    return [(field.removeprefix("spec.volumes[0]").removeprefix("."), text) for field, text in causes]


def update_causes(kinds: Definitions, before: Any, after: Any, subresource: str = "") -> Causes:
    return list(dict.fromkeys(kinds.update("pods", before, after, subresource)[1]))
