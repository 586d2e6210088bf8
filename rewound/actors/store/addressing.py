"""Checks that the name and namespace in a body match the request path; and the error for a missing object.

A namespace in a cluster-scoped object is dropped without an error, because many clients always set one.
"""

from __future__ import annotations

from rewound.actors.errors import BadRequest, NotFound, RequestError
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.validation import name_is_path_segment
from rewound.actors.messages import Object


def check_namespace(namespace: str, body: Object) -> None:
    """Check the namespace in a body. `namespace` is empty for cluster-scoped objects: any in the body is dropped."""
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


def not_found(definition: Definition, name: str) -> RequestError:
    return invalid_name(name) or NotFound(definition.resource, name)


def invalid_name(name: str) -> BadRequest | None:
    """The error for a name that no object can have, because it is not a valid path segment."""
    wrong = name_is_path_segment(name, prefix=False)
    return BadRequest(f"Name parameter invalid: {quoted_start(name)}: {';'.join(wrong)}") if wrong else None
