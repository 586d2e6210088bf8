"""Why a request could not be fulfilled: one class per cause, named for whose fault it is.

Raised by actors, reads and admission; `gateway/requests/errors.py` is the one place that turns them into status codes.
Each carries facts, never a rendered answer: the resource is kept as (group, plural) so that the boundary can
spell `leases.coordination.cluster.io "x"` and fill the details of a Status alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class RequestError(Exception):
    """Base of everything a client is told about."""

    message: str = ""

    def __str__(self) -> str:
        return self.message


class Resource(NamedTuple):
    """A resource type as errors name it: plural name and group (empty for the core group)."""

    group: str
    plural: str

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of details.causes: a reason word, a text, and the field where there is one."""

    reason: str
    message: str
    field: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class NotFound(RequestError):
    def __init__(self, resource: Resource, name: str) -> None:
        self.resource, self.name = resource, name
        self.message = f'{resource} "{name}" not found'


class NoSuchResource(RequestError):
    """The group is served but has no such resource or subresource."""

    message = "the server could not find the requested resource"


class AlreadyExists(RequestError):
    """`ending`: what is there has been deleted and waits for its finalizers."""

    def __init__(
        self, resource: Resource, name: str, *, generated: bool = False, ending: bool = False
    ) -> None:
        self.resource, self.name, self.generated = resource, name, generated
        self.message = f'{"object is being deleted: " if ending else ""}{resource} "{name}" already exists'
        if generated:
            self.message += ", the server was not able to generate a unique name for the object"


class Conflict(RequestError):
    """A precondition (resourceVersion, uid) did not hold."""

    def __init__(self, resource: Resource, name: str, why: str, causes: Sequence[Cause] = ()) -> None:
        self.resource, self.name, self.causes = resource, name, tuple(causes)
        self.message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'


class ApplyConflict(RequestError):
    """An applier wants to change what others own; the causes name every field."""

    def __init__(self, message: str, causes: Sequence[Cause]) -> None:
        self.message, self.causes = message, tuple(causes)


STALE = "the object has been modified; please apply your changes to the latest version and try again"


# A body of a few megabytes can break a hundred thousand rules; nobody reads more than these.
MOST_CAUSES = 100
MOST_COUNTED = 1000  # beyond these nobody has looked for more


class Invalid(RequestError):
    """The object (or the options) is well-formed but breaks rules; every broken rule is a cause."""

    def __init__(self, group: str, kind: str, name: str, causes: Sequence[Cause]) -> None:
        self.group, self.kind, self.name, self.causes = group, kind, name, tuple(causes[:MOST_CAUSES])
        texts = list(dict.fromkeys(str(cause) for cause in self.causes))
        if len(causes) > MOST_COUNTED:
            texts.append("and many more")
        elif len(causes) > MOST_CAUSES:
            texts.append(f"and {len(causes) - MOST_CAUSES} more")
        described = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
        qualified = f"{kind}.{group}" if group else kind
        self.message = f'{qualified} "{name}" is invalid: {described}'


class BadRequest(RequestError):
    def __init__(self, message: str) -> None:
        self.message = message


class Unprocessable(RequestError):
    """A patch that cannot be applied to the object as it is, or makes something else of it."""

    def __init__(self, message: str) -> None:
        self.message = message


class Forbidden(RequestError):
    """Refused by authorization or admission. Without a resource it concerns a path."""

    def __init__(self, resource: Resource | None, name: str, why: str, causes: Sequence[Cause] = ()) -> None:
        self.resource, self.name, self.causes = resource, name, tuple(causes)
        if resource is None:
            self.message = f"forbidden: {why}"
        elif name:
            self.message = f'{resource} "{name}" is forbidden: {why}'
        else:
            self.message = f"{resource} is forbidden: {why}"


class EvictionRefused(RequestError):
    """A budget does not allow one pod less now; `retry_after` is when it may, in seconds, 0: nobody knows."""

    message = "Cannot evict pod as it would violate the pod's disruption budget."

    def __init__(self, why: str, retry_after: int = 0) -> None:
        self.causes, self.retry_after = (Cause("DisruptionBudget", why),), retry_after


class TooManyBudgets(RequestError):
    message = (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )


class Unauthorized(RequestError):
    message = "Unauthorized"


class Expired(RequestError):
    """A version or continue token past the watch history. `fresh` is a token to go on with."""

    def __init__(self, message: str, fresh: str = "") -> None:
        self.message, self.fresh = message, fresh


class VersionTooLarge(RequestError):
    """A resourceVersion that this server has not reached."""

    def __init__(self, wanted: int, current: int) -> None:
        self.message = f"Too large resource version: {wanted}, current: {current}"


class TimedOut(RequestError):
    def __init__(self, message: str) -> None:
        self.message = message


class TooLarge(RequestError):
    """The body, or what it asks for, is over a limit."""

    def __init__(self, message: str) -> None:
        self.message = message


class Overloaded(RequestError):
    """A mailbox is full: the client should come back."""

    message = "the server is receiving more writes of this resource type than it can take, please try again"


class ShuttingDown(RequestError):
    """The server stopped before the request was complete."""

    message = "the server is shutting down, please try again"


class StorageRefused(RequestError):
    """The journal could not take the write (full disk, failed fsync); reads go on."""

    def __init__(self, why: str) -> None:
        self.message = f"the journal cannot store this change: {why}"


class Exhausted(RequestError):
    """Nothing is left of something that the server gives out."""

    def __init__(self, why: str) -> None:
        self.message = f"Internal error occurred: {why}"
