"""The whole vocabulary that the gateway and the actors exchange: frozen, plain, msgpack-able data.

A command never changes, nor does anything in it: who makes something of `object` or `patch` works on a copy, so that
a command can be decided again, or elsewhere. Everything impure that a change needs (time, uid, random letters)
arrives in the `Stamp`, so that `decide` is a pure function. Events in the journal carry the object as it is after
the change; state is their fold, no decision is ever repeated to get it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from actors.identity import User

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who writes, when, and the randomness the write may use."""

    time: int  # microseconds since 1970
    user: str
    manager: str  # field manager: the query parameter, or the user agent up to its first slash
    uid: str  # for the object a create makes
    suffix: str  # five letters for generateName
    caller: User | None = None  # all that is known of the user; None for the server itself


@dataclass(frozen=True, slots=True)
class Create:
    version: str  # the served version the request used, e.g. "v1" or "events.cluster.io/v1"
    namespace: str
    object: Object  # decoded, defaulted, in storage form
    stamp: Stamp
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Replace:
    version: str
    namespace: str
    name: str
    object: Object
    stamp: Stamp
    subresource: str = ""
    dry_run: bool = False
    may_create: bool = False  # the caller also has the right to create (kinds that PUT creates)


@dataclass(frozen=True, slots=True)
class Patch:
    version: str
    namespace: str
    name: str
    format: str  # "json", "merge", "strategic" or "apply"
    patch: Any  # the decoded patch document; of an apply a partial object that decodes
    stamp: Stamp
    subresource: str = ""
    dry_run: bool = False
    field_validation: str = "Warn"
    problems: tuple[str, ...] = ()  # what is doubtful about the patch's own fields
    # Of applies alone:
    force: bool = False
    may_create: bool = False  # the caller also has the right to create
    annotation: str = ""  # where the caller keeps its last configuration, if it also applies on its own side


@dataclass(frozen=True, slots=True)
class Submit:
    """What is posted to a subresource of an object that is there."""

    version: str
    namespace: str
    name: str
    subresource: str
    object: Object
    stamp: Stamp
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace_period_seconds: int | None = None
    propagation_policy: str = ""  # "", "Orphan", "Background", "Foreground"
    uid: str | None = None  # preconditions
    resource_version: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    version: str
    namespace: str
    name: str
    stamp: Stamp
    options: DeleteOptions = field(default_factory=DeleteOptions)
    verb: str = "delete"  # or "deletecollection": what the journal records

    @property
    def dry_run(self) -> bool:
        return self.options.dry_run


Command = Create | Replace | Patch | Submit | Delete


@dataclass(frozen=True, slots=True)
class Written:
    """A create or replace that happened (or would have: dry run). `body` has no kind and apiVersion."""

    body: bytes
    created: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deleted:
    """A delete that was accepted. `gone` is False while finalizers hold the object."""

    body: bytes
    name: str
    uid: str
    gone: bool


Outcome = Written | Deleted
