"""Why a request failed: one class per cause.

Actors, reads and admission raise these errors; only `gateway/pipeline/errors.py` turns them into status codes. Each
carries data, never a rendered response: the resource is a (group, plural) pair, so that the gateway can both write
`leases.coordination.cluster.io "x"` and fill the details of a Status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import orjson

from rewound.actors.golang.quoting import quoted, quoted_start


class RequestError(Exception):
    """Base of every error that becomes an error response."""

    message: str = ""
    warnings: tuple[str, ...] = ()  # from admission, for the client

    def __str__(self) -> str:
        return self.message


class Resource(NamedTuple):
    """A resource type as errors name it: plural name and group (empty for the core group)."""

    group: str
    plural: str

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Cause(msgspec.Struct, frozen=True):
    """One entry of details.causes: a reason, a message, and the field if there is one."""

    reason: str
    message: str
    field: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class NotFound(RequestError):
    def __init__(self, resource: Resource, name: str) -> None:
        self.resource, self.name = resource, name
        self.message = f"{resource} {quoted_start(name)} not found"


class NoSuchResource(RequestError):
    """The group is served but has no such resource or subresource."""

    message = "the server could not find the requested resource"


class AlreadyExists(RequestError):
    """`terminating`: the existing object is being deleted and waits for its finalizers."""

    def __init__(
        self, resource: Resource, name: str, *, generated: bool = False, terminating: bool = False
    ) -> None:
        self.resource, self.name, self.generated = resource, name, generated
        deleted = "object is being deleted: " if terminating else ""
        self.message = f"{deleted}{resource} {quoted_start(name)} already exists"
        if generated:
            self.message += ", the server was not able to generate a unique name for the object"


class Conflict(RequestError):
    """A precondition (resourceVersion, uid) did not hold."""

    def __init__(self, resource: Resource, name: str, why: str, causes: Sequence[Cause] = ()) -> None:
        self.resource, self.name, self.causes = resource, name, tuple(causes)
        self.message = f"Operation cannot be fulfilled on {resource} {quoted_start(name)}: {why}"


class ApplyConflict(RequestError):
    """A server-side apply would change fields that other managers own; the causes name every field."""

    def __init__(self, message: str, causes: Sequence[Cause]) -> None:
        self.message, self.causes = message, tuple(causes)


STALE = "the object has been modified; please apply your changes to the latest version and try again"


# A body of a few megabytes can break a hundred thousand rules; a response lists at most this many, and at most as
# many bytes of them (in JSON, with the message, which repeats each different one): no response to a bad body exceeds
# 64 KiB, names, braces and indentation included.
MAX_CAUSES = 100
MAX_CAUSE_BYTES = 48 * 1024
MAX_COUNTED = 1000  # validation stops looking for errors after this many
MAX_NAME = 1024  # characters of a name in a message; valid names have at most 253


class Invalid(RequestError):
    """The object (or the options) is well-formed but breaks rules; every broken rule is a cause."""

    def __init__(self, group: str, kind: str, name: str, causes: Sequence[Cause]) -> None:
        self.group, self.kind, self.causes = group, kind, _first_causes(causes)
        self.name = name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}..."
        texts = list(dict.fromkeys(str(cause) for cause in self.causes))
        if len(causes) > MAX_COUNTED:
            texts.append("and many more")
        elif len(causes) > len(self.causes):
            texts.append(f"and {len(causes) - len(self.causes)} more")
        described = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
        qualified = f"{kind}.{group}" if group else kind
        self.message = f"{qualified} {quoted(self.name)} is invalid: {described}"


def _first_causes(causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Return as many causes as a response may list; the first one is always there, cut short if necessary."""
    kept: list[Cause] = []
    texts: set[str] = set()
    room = MAX_CAUSE_BYTES
    for cause in causes[:MAX_CAUSES]:
        text = str(cause)
        size = _bytes_in_json(text)
        room -= size if text in texts else 2 * size
        if room < 0:
            break
        kept.append(cause)
        texts.add(text)
    if causes and not kept:
        first = causes[0]
        room = MAX_CAUSE_BYTES // 4
        return (Cause(first.reason, _fitting(first.message, room), _fitting(first.field, room)),)
    return tuple(kept)


def _bytes_in_json(text: str) -> int:
    return len(orjson.dumps(text))


def _fitting(text: str, room: int) -> str:
    """Return the text, or as much of its start as fits."""
    length = len(text)
    while _bytes_in_json(text[:length]) > room:
        length //= 2
    return text if length == len(text) else f"{text[:length]}..."


class BadRequest(RequestError):
    def __init__(self, message: str) -> None:
        self.message = message


class Unprocessable(RequestError):
    """A patch that cannot be applied to the current object, or changes its kind or identity."""

    def __init__(self, message: str) -> None:
        self.message = message


class NotOfItsKind(Unprocessable):
    """An older or a foreign writer stored the object in a form that its kind does not have, so it cannot be changed."""

    def __init__(self, resource: Resource, name: str, why: str) -> None:
        super().__init__(
            f'{resource} "{name}" is stored in a form that its kind does not have: {why}; replace or delete it'
        )


class NoJson(RequestError):
    """A foreign writer stored bytes that are no object in JSON."""

    def __init__(self, resource: Resource, name: str) -> None:
        self.message = (
            f'{resource} "{name}" cannot be read: its stored bytes are no object in JSON; delete it'
        )


class PatchFailed(RequestError):
    """A strategic merge patch that Kubernetes refuses with 500, although the mistake is the client's."""

    def __init__(self, message: str) -> None:
        self.message = message


class Forbidden(RequestError):
    """Authorization or admission refused the request. Without a resource it concerns a non-resource path."""

    def __init__(self, resource: Resource | None, name: str, why: str, causes: Sequence[Cause] = ()) -> None:
        self.resource, self.name, self.causes = resource, name, tuple(causes)
        if resource is None:
            self.message = f"forbidden: {why}"
        elif name:
            self.message = f"{resource} {quoted_start(name)} is forbidden: {why}"
        else:
            self.message = f"{resource} is forbidden: {why}"


class EvictionRefused(RequestError):
    """A PodDisruptionBudget allows no eviction now; `retry_after` is in seconds, 0 if unknown."""

    message = "Cannot evict pod as it would violate the pod's disruption budget."

    def __init__(self, why: str, retry_after: int = 0) -> None:
        self.causes, self.retry_after = (Cause("DisruptionBudget", why),), retry_after


class NotANumber(RequestError):
    """The resourceVersion of an update is no number; with the text of Go."""

    def __init__(self, text: str) -> None:
        why = "value out of range" if text.isascii() and text.isdecimal() else "invalid syntax"
        self.message = f"strconv.ParseUint: parsing {quoted_start(text)}: {why}"


class IllTyped(RequestError):
    """An applied object does not fit the schema of its kind."""

    def __init__(self, message: str) -> None:
        self.message = message

    @classmethod
    def fields(cls, applied: Mapping[str, Any], why: str) -> IllTyped:
        """Return the error for fields that the schema does not have, or values of other types."""
        address, type_ = _identity(applied)
        return cls(f"failed to create typed patch object ({address}; {type_}): {why}")

    @classmethod
    def values(cls, applied: Mapping[str, Any], why: str) -> IllTyped:
        """Return the error for a value of the right type that cannot be read, such as a quantity."""
        address, type_ = _identity(applied)
        return cls(
            f"failed to convert new object ({address}; {type_}) to proper version: "
            f"unable to convert unstructured object to {type_}: {why}"
        )


def _identity(applied: Mapping[str, Any]) -> tuple[str, str]:
    """Return namespace and name of an applied object, and its type, as Kubernetes writes them."""
    metadata = applied.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    sent = (metadata.get("namespace"), metadata.get("name"))
    group, _, version = str(applied.get("apiVersion", "")).rpartition("/")
    address = "/".join(one if isinstance(one, str) else "" for one in sent)
    return address, f"{group}/{version}, Kind={applied.get('kind', '')}"


class TooManyBudgets(RequestError):
    message = (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )


class Unauthorized(RequestError):
    """No authentication method accepts the credentials. Clients get no reason; TokenReviews and the log show
    `reasons`, audit events `annotations`.
    """

    message = "Unauthorized"

    def __init__(self, reasons: Sequence[str] = (), annotations: Sequence[tuple[str, str]] = ()) -> None:
        self.reasons, self.annotations = tuple(reasons), tuple(annotations)


class AuthorizationFailed(RequestError):
    """An authorizer failed, and no other allowed the request: this is not the client's fault."""

    def __init__(self, error: str) -> None:
        self.message = f"Internal error occurred: {error}"


class KeysUnusable(RequestError):
    """The server can neither sign nor verify service account tokens; its log names the file and what to do."""

    message = (
        "Internal error occurred: the keys of service account tokens cannot be used; "
        "the server's log says why and what to do"
    )


class Expired(RequestError):
    """A resourceVersion or continue token is older than the watch history. `fresh` is a token to continue with."""

    def __init__(self, message: str, fresh: str = "") -> None:
        self.message, self.fresh = message, fresh


class VersionTooLarge(RequestError):
    """The requested resourceVersion is ahead of the journal."""

    def __init__(self, wanted: int, current: int) -> None:
        self.message = f"Too large resource version: {wanted}, current: {current}"


class TimedOut(RequestError):
    def __init__(self, message: str) -> None:
        self.message = message


class WriteTimedOut(RequestError):
    """A write was not decided in time, and nothing of it is stored. `requested`: the client set the time limit."""

    def __init__(self, *, requested: bool) -> None:
        within = "the allotted timeout" if requested else "requested timeout - context deadline exceeded"
        self.message = f"Timeout: request did not complete within {within}"


class TooLarge(RequestError):
    """The body, or the object that it would produce, exceeds a limit."""

    def __init__(self, message: str) -> None:
        self.message = message


class DefaultsTooLarge(TooLarge):
    """The defaults of a definition make an object too large."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"Request entity too large: the defaults of its CustomResourceDefinition would add more than {most} "
            "bytes to this object, please give it fewer items or the definition smaller defaults"
        )


class RequestTooLarge(RequestError):
    """The object is larger than kube-apiserver could store; the message is that of etcd or of its client."""

    def __init__(self, message: str) -> None:
        self.message = message


class PathTooLong(RequestError):
    """The path of the request is longer than any that a client needs."""

    def __init__(self, most: int) -> None:
        self.message = (
            f"Request URI too long: a path has at most {most} bytes, put long values into the query"
        )


class Overloaded(RequestError):
    """The mailbox of an actor is full: the client should retry."""

    message = "the server is receiving more writes of this resource type than it can take, please try again"


class RateLimited(RequestError):
    """An admission plugin limits how many objects a client writes."""

    def __init__(self, why: str) -> None:
        self.message = f"Too many requests: {why}"


class ShuttingDown(RequestError):
    """The server stopped before the request was complete."""

    message = "the server is shutting down, please try again"


class WriterUnavailable(RequestError):
    """The process that writes the journal is starting; nothing of the write is stored."""

    message = "the process that writes the journal is being started, please try again"


class StorageRefused(RequestError):
    """The journal could not store the write (full disk, failed fsync); reads continue to work."""

    def __init__(self, why: str) -> None:
        self.message = f"the journal cannot store this change: {why}"


class Unreachable(RequestError):
    """The journal's order comes from an etcd cluster that this node cannot reach; nothing was changed."""

    def __init__(self, why: str, what: str = "etcd cannot be reached or has no quorum") -> None:
        self.message = f"{what}, please try again: {why}"


class OutcomeUnclear(RequestError):
    """The server could not find out in time whether a change was stored."""

    def __init__(self, why: str) -> None:
        self.message = (
            f"it is unknown whether this change is stored, read the object before you try again: {why}"
        )


class Exhausted(RequestError):
    """A range that the server allocates from (ClusterIPs, node ports) is full."""

    def __init__(self, why: str) -> None:
        self.message = f"Internal error occurred: {why}"


class NoReplicas(RequestError):
    """A custom object has no scale, because it lacks the replicas field that its definition names."""

    def __init__(self, path: str) -> None:
        self.message = f"Internal error occurred: the spec replicas field {quoted_start(path)} does not exist"


class WebhookFailed(RequestError):
    """An admission webhook could not be called, or its response cannot be used."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.message = f"Internal error occurred: {why}"


class AdmissionFailed(RequestError):
    """An admission plugin cannot decide yet: what the request names may be another object soon."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConversionFailed(RequestError):
    """A webhook did not convert an object to the requested version."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class WebhookDenied(RequestError):
    """An admission webhook refused the write, with a status code and details of its own."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None) -> None:
        self.code, self.reason, self.message, self.details = code, reason, message, details


class PolicyDenied(Forbidden):
    """An admission policy refused the write, for one of the reasons that policies may have."""

    def __init__(self, resource: Resource | None, name: str, why: str, reason: str) -> None:
        super().__init__(resource, name, why, [Cause("", why)])
        self.reason = reason


class MutationDenied(Forbidden):
    """A mutation of an admission policy could not be applied."""

    def __init__(self, resource: Resource | None, name: str, why: Sequence[str], reason: str) -> None:
        super().__init__(resource, name, why[0], [Cause("", one) for one in why])
        self.message, self.reason = why[0], reason
