"""The messages that the gateway and the actors exchange: frozen, plain data (`message_encoding` has them as bytes).

A command never changes, nor does anything in it: code that derives something from `object` or `patch` works on a
copy, so that the command can be decided again, or in another process. Everything impure that a write needs (time,
uid, random letters) is in the `WriteContext`, so that `decide` is a pure function. Events in the journal carry the
object after the change; the state is the fold of the events, and no replay repeats a decision.

The messages of a create are named tuples: as frozen as the others, but a frozen dataclass takes three times as long
to create.
"""

from __future__ import annotations

from math import inf
from typing import Any, Final, NamedTuple

import msgspec

from rewound.actors.identity import User

Object = dict[str, Any]

# The most seconds that a write may wait outside its actor, as in Kubernetes.
LONGEST_WRITE: Final = 34.0


class WriteContext(NamedTuple):
    """Who writes, when, and the random values that the write may use."""

    time: int  # microseconds since 1970
    user: str
    manager: str  # field manager: the query parameter, or the user agent up to its first slash
    uid: str  # for the object that a create adds
    suffix: str  # five letters for generateName
    caller: User | None = None  # None for the server itself
    large: bool = False  # the body is so large that a worker thread decides the command
    options: tuple[tuple[str, str], ...] = ()  # fieldManager and fieldValidation, as the client sent them
    annotations: dict[str, str] | None = None  # of the audit event; admission adds to it. None: no audit log
    reason: str = ""  # recorded in the journal: what a rollback or undelete restores
    deadline: float = inf  # of the client, on trio's clock
    webhook_seconds: dict[str, float] | None = None  # admission webhooks add to it. None: not measured
    warns: bool = True  # whether anybody reads the warnings of the kind


class Create(NamedTuple):
    version: str  # the served version the request used, e.g. "v1" or "events.cluster.io/v1"
    namespace: str
    object: Object  # decoded, defaulted, in storage form
    context: WriteContext
    dry_run: bool = False


class Replace(msgspec.Struct, frozen=True):
    version: str
    namespace: str
    name: str
    object: Object
    context: WriteContext
    subresource: str = ""
    dry_run: bool = False
    may_create: bool = False  # the caller also has the right to create (kinds that PUT creates)


class Patch(msgspec.Struct, frozen=True):
    version: str
    namespace: str
    name: str
    format: str  # "json", "merge", "strategic" or "apply"
    patch: Any  # the decoded patch document; for an apply, a partial object
    context: WriteContext
    subresource: str = ""
    dry_run: bool = False
    field_validation: str = "Warn"
    problems: tuple[str, ...] = ()  # warnings about the fields of the patch document itself
    # Only for server-side apply:
    force: bool = False
    may_create: bool = False  # the caller also has the right to create
    annotation: str = ""  # name of the annotation with the last configuration of a client-side apply
    # The client sent an apply of a subresource, such as the scale; this is it as a merge patch.
    merges_apply: bool = False


class Submit(msgspec.Struct, frozen=True):
    """A POST to a subresource of an existing object, after admission."""

    version: str
    namespace: str
    name: str
    subresource: str
    object: Object
    context: WriteContext
    dry_run: bool = False


class DeleteOptions(msgspec.Struct, frozen=True):
    grace_period_seconds: int | None = None
    propagation_policy: str = ""  # "", "Orphan", "Background", "Foreground"
    uid: str | None = None  # preconditions
    resource_version: str | None = None
    dry_run: bool = False
    orphan_dependents: bool | None = None  # as the client sent it; already reflected in `propagation_policy`


COLLECTION: Final = "deletecollection"


class Delete(msgspec.Struct, frozen=True):
    version: str
    namespace: str
    name: str
    context: WriteContext
    options: DeleteOptions = msgspec.field(default_factory=DeleteOptions)
    verb: str = "delete"  # what the journal records: "delete" or COLLECTION
    evicts: bool = False  # webhooks have already reviewed the Eviction

    @property
    def dry_run(self) -> bool:
        return self.options.dry_run


Command = Create | Replace | Patch | Submit | Delete


class Written(NamedTuple):
    """The result of a create, replace or patch, or of its dry run. `body` has no kind and apiVersion."""

    body: bytes
    created: bool = False
    warnings: tuple[str, ...] = ()


class Deleted(msgspec.Struct, frozen=True):
    """An accepted delete. `removed` is False while finalizers or the grace period hold the object back."""

    body: bytes
    name: str
    uid: str
    removed: bool
    warnings: tuple[str, ...] = ()


Outcome = Written | Deleted
