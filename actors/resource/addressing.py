"""The name and namespace of a body must be those that the request addressed.

A namespace in an object of the whole cluster means nothing and is taken out: programs that write one everywhere
are many, and no other object could be meant.
"""

from __future__ import annotations

from actors.errors import BadRequest
from actors.messages import Object


def settle_namespace(namespace: str, body: Object) -> None:
    """`namespace` is empty where an object of the whole cluster is addressed."""
    if not namespace:
        body["metadata"].pop("namespace", None)
        return
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
