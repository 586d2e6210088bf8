"""Creates the Secrets of bootstrap tokens for tests."""

from __future__ import annotations

import base64
from typing import Any

from rewound.actors.access.bootstrap_token import secret_type
from rewound.actors.names import CLUSTER, Names
from tests.actors.controllers.control_plane import ControlPlane

ID, SECRET = "abc123", "0123456789abcdef"
TOKEN = f"{ID}.{SECRET}".encode()
AUTHENTICATION, SIGNING = "usage-bootstrap-authentication", "usage-bootstrap-signing"


def secret(names: Names = CLUSTER, kind: str | None = None, **data: str | None) -> dict[str, Any]:
    """Type and data; underscores in keys become hyphens, and None omits a key."""
    values: dict[str, str | None] = {
        "token_id": ID,
        "token_secret": SECRET,
        "usage_bootstrap_authentication": "true",
        "usage_bootstrap_signing": "true",
        **data,
    }
    encoded = {
        key.replace("_", "-"): base64.b64encode(value.encode()).decode()
        for key, value in values.items()
        if value is not None
    }
    return {"type": secret_type(names) if kind is None else kind, "data": encoded}


async def create_token(
    cluster: ControlPlane,
    *,
    name: str = f"bootstrap-token-{ID}",
    namespace: str = "cluster-system",
    kind: str | None = None,
    finalizers: list[str] | None = None,
    **data: str | None,
) -> None:
    more = {"finalizers": finalizers} if finalizers else {}
    await cluster.create("secrets", name, namespace=namespace, content=secret(kind=kind, **data), **more)
