"""The name and namespace of a body must be those that the request addressed."""

from __future__ import annotations

from actors.errors import BadRequest
from actors.messages import Object


def check_namespace(namespace: str, body: Object) -> None:
    sent = body["metadata"].get("namespace", "")
    if sent and sent != namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_name(addressed: str, body: Object) -> None:
    name = body["metadata"].get("name", "")
    if not name:
        raise BadRequest(
            f"the name of the object ({addressed} based on URL) was undeterminable: name must be provided"
        )
    if name != addressed:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({addressed})")
