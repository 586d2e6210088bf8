"""How operations and lists are put to the server, and what may come back."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import quote

from tests.robustness.client import Client
from tests.robustness.history import CREATE, DELETE, DELETE_COLLECTION, GET, REPLACE, Operation, Page, Walk
from tests.robustness.objects import KINDS, Document, document

METHODS = {CREATE: "POST", REPLACE: "PUT", DELETE: "DELETE", DELETE_COLLECTION: "DELETE", GET: "GET"}
# Whether one of these is right is for the model to say; any other is wrong whatever happened before.
MEANT = {
    CREATE: (201, 409),
    REPLACE: (200, 201, 404, 409, 422),
    DELETE: (200, 202, 404, 409),
    DELETE_COLLECTION: (200,),
    GET: (200, 404),
}

Sent = Callable[[], None]
Question = tuple[str, str, Document | None]  # method, path, body


def nothing() -> None:
    """What most do between sending and waiting."""


def question(operation: Operation) -> Question:
    return METHODS[operation.verb], _path(operation), _body(operation)


def ask(client: Client, operation: Operation, sent: Sent = nothing) -> None:
    """Put the operation to the server and write down its answer."""
    asked = question(operation)
    status, operation.answer = client.call(*asked, sent)
    operation.ended, operation.status = time.monotonic(), status
    assert status in MEANT[operation.verb], f"{operation}: {operation.answer}"


def ask_page(client: Client, walk: Walk, sent: Sent = nothing) -> None:
    """Ask for the next page of a list and add it."""
    began = time.monotonic()
    status, answer = client.call("GET", _listing(walk), None, sent)
    if status == 410:
        walk.expired = True
        return
    assert status == 200, f"{walk}: {status} {answer}"
    metadata = answer["metadata"]
    version, token = int(metadata["resourceVersion"]), metadata.get("continue", "")
    walk.pages.append(Page(began, time.monotonic(), version, answer["items"], token))


def _path(operation: Operation) -> str:
    kind, key = KINDS[operation.key.plural], operation.key
    match operation.verb:
        case "create":
            return kind.collection(key.namespace)
        case "deletecollection":
            return _queried(kind.collection(key.namespace), {"labelSelector": f"color={operation.color}"})
        case _:
            return kind.item(key)


def _body(operation: Operation) -> Document | None:
    if operation.content is not None:
        return document(operation.key, operation.content, operation.expected)
    if operation.verb == DELETE and operation.expected is not None:
        return {"preconditions": {"resourceVersion": str(operation.expected)}}
    return None


def _listing(walk: Walk) -> str:
    query = {}
    if walk.color:
        query["labelSelector"] = f"color={walk.color}"
    if walk.limit:
        query["limit"] = str(walk.limit)
    if walk.pages:
        query["continue"] = walk.pages[-1].token
    elif walk.version is not None:
        query |= {"resourceVersion": str(walk.version), "resourceVersionMatch": walk.match}
    return _queried(KINDS[walk.plural].collection(walk.namespace), query)


def _queried(path: str, query: dict[str, str]) -> str:
    pairs = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    return f"{path}?{pairs}" if pairs else path
