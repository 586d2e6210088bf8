"""What an admission plugin declares: its name, and which writes it changes, fills in or may refuse.

A plugin has up to three steps, each with rules that say which writes it concerns, as those of webhooks do; without
any the plugin has no such step. Steps are pure lookups over what the server knows. `mutate` and `complete` return the
changed object, a copy that shares what stays the same with the one in the request, which nobody changes; None means
no change. Any step refuses a write by raising a RequestError.

A plugin that has to ask somebody outside is an `AsyncPlugin`. Its step runs in a task of its own, while the actor goes
on with other commands; the write is decided again when the outcome is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from actors.admission.request import AdmissionRequest
from actors.errors import Resource
from actors.kinds.declaration.definition import Definition
from actors.messages import Object


class Rule(NamedTuple):
    """Which writes concern a step; `None` stands for all resources or subresources."""

    operations: frozenset[str]
    resources: frozenset[Resource] | None = None
    subresources: frozenset[str] | None = frozenset({""})
    namespaced_only: bool = False

    def covers(self, definition: Definition, operation: str, subresource: str) -> bool:
        return (
            operation in self.operations
            and (self.resources is None or definition.resource in self.resources)
            and (self.subresources is None or subresource in self.subresources)
            and (definition.namespaced or not self.namespaced_only)
        )


def rule(
    *operations: str,
    of: Iterable[Resource] | None = None,
    subresources: Iterable[str] | None = ("",),
    namespaced_only: bool = False,
) -> Rule:
    return Rule(
        frozenset(operations),
        None if of is None else frozenset(of),
        None if subresources is None else frozenset(subresources),
        namespaced_only,
    )


class Plugin:
    name: ClassVar[str]  # as in --enable-admission-plugins
    mutates: tuple[Rule, ...] = ()
    completes: tuple[Rule, ...] = ()  # what the server itself fills in, after everybody's changes
    validates: tuple[Rule, ...] = ()
    # Its `mutate` only refuses, and does so too when a write comes back from an asynchronous step.
    repeats: ClassVar[bool] = False

    def mutate(self, request: AdmissionRequest) -> Object | None:
        raise NotImplementedError

    def complete(self, request: AdmissionRequest) -> Object | None:
        raise NotImplementedError

    def validate(self, request: AdmissionRequest) -> None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Admitted:
    """The outcome of an asynchronous step; a refusal is an exception."""

    object: Object | None = None  # what the step made of the object; None: no change
    warnings: tuple[str, ...] = ()


class AsyncPlugin(Plugin):
    """Has one step: it either `mutates` or `validates`."""

    async def admit(self, request: AdmissionRequest) -> Admitted:
        """Must change nothing in the request; may be cancelled, and asked again when the object has moved."""
        raise NotImplementedError
