"""The name and namespace of a body must be those that the request addressed; and what is told where nothing is there.

A namespace in an object of the whole cluster means nothing and is taken out: programs that write one everywhere
are many, and no other object could be meant.
"""

from __future__ import annotations

from actors.errors import BadRequest, NotFound, RequestError
from actors.kinds.declaration.definition import Definition
from actors.kinds.validation.checks import name_is_path_segment
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


def missing(definition: Definition, name: str) -> RequestError:
    return impossible(name) or NotFound(definition.resource, name)


def impossible(name: str) -> BadRequest | None:
    """Of a name that no object can ever have, because no path could lead to it."""
    wrong = name_is_path_segment(name, prefix=False)
    return BadRequest(f'Name parameter invalid: "{name}": {";".join(wrong)}') if wrong else None
