"""Sends operations and lists to the server and records the responses."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import quote

from tests.robustness.client import Client
from tests.robustness.history import (
    CREATE,
    DELETE,
    DELETE_COLLECTION,
    GET,
    REPLACE,
    Operation,
    Page,
    PagedList,
)
from tests.robustness.objects import KINDS, Document, document

METHODS = {CREATE: "POST", REPLACE: "PUT", DELETE: "DELETE", DELETE_COLLECTION: "DELETE", GET: "GET"}
# The model decides which of these is right; any other status is wrong in every state.
VALID_STATUSES = {
    CREATE: (201, 409),
    REPLACE: (200, 201, 404, 409, 422),
    DELETE: (200, 202, 404, 409),
    DELETE_COLLECTION: (200,),
    GET: (200, 404),
}

Sent = Callable[[], None]
HttpRequest = tuple[str, str, Document | None]  # method, path, body


def nothing() -> None:
    """The default callback between sending and waiting."""


def http_request(operation: Operation) -> HttpRequest:
    return METHODS[operation.verb], _path(operation), _body(operation)


def send(client: Client, operation: Operation, sent: Sent = nothing) -> None:
    """Send an operation and record its response."""
    status, operation.response = client.call(*http_request(operation), sent)
    operation.ended, operation.status = time.monotonic(), status
    assert status in VALID_STATUSES[operation.verb], f"{operation}: {operation.response}"


def fetch_page(client: Client, paged: PagedList, sent: Sent = nothing) -> None:
    """Request the next page of a list and add it."""
    began = time.monotonic()
    status, response = client.call("GET", _listing(paged), None, sent)
    if status == 410:
        paged.expired = True
        return
    assert status == 200, f"{paged}: {status} {response}"
    metadata = response["metadata"]
    version, token = int(metadata["resourceVersion"]), metadata.get("continue", "")
    paged.pages.append(Page(began, time.monotonic(), version, response["items"], token))


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


def _listing(paged: PagedList) -> str:
    query = {}
    if paged.color:
        query["labelSelector"] = f"color={paged.color}"
    if paged.limit:
        query["limit"] = str(paged.limit)
    if paged.pages:
        query["continue"] = paged.pages[-1].token
    elif paged.version is not None:
        query |= {"resourceVersion": str(paged.version), "resourceVersionMatch": paged.match}
    return _queried(KINDS[paged.plural].collection(paged.namespace), query)


def _queried(path: str, query: dict[str, str]) -> str:
    pairs = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    return f"{path}?{pairs}" if pairs else path
