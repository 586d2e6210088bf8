"""The interface of admission plugins: a name, and rules for the writes that a plugin mutates, completes or validates.

A plugin has up to three steps, each with rules that select writes, like those of webhooks; a step without rules never
runs. Steps read only the server's memory and the journal. `mutate` and `complete` return the changed object, a copy
that shares its unchanged parts with the one in the request, which no plugin changes; None means no change. A step
rejects a write by raising a RequestError.

A plugin that calls another process is an `AsyncPlugin`. A write waits for its step, while the actor continues with
other commands; if its object has changed meanwhile, the write is decided again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, NamedTuple

import msgspec

from rewound.actors.admission.request import AdmissionRequest, Reinvocation
from rewound.actors.errors import Cause, Forbidden, MutationDenied, PolicyDenied, Resource
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object


class Rule(NamedTuple):
    """Selects the writes of a step; `None` means all resources or subresources."""

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
    completes: tuple[Rule, ...] = ()  # values that the server sets, after all mutating plugins
    validates: tuple[Rule, ...] = ()
    # Its `mutate` only rejects, and runs again when a write continues after an asynchronous step.
    repeats: ClassVar[bool] = False
    # Its steps use only the request and the journal, so that a worker thread may run them. The steps of other plugins
    # run in the event loop, also for large objects: they must be fast.
    thread_safe: ClassVar[bool] = False

    runs: ClassVar[bool] = False  # it has a background task, `run`

    async def run(self) -> None:
        """Runs as long as the server."""
        raise NotImplementedError

    def check_configuration(self) -> None:
        """Called when a server that runs the plugin starts. Raises ValueError if it lacks its configuration."""

    def admits_all(self, operation: str) -> Callable[[str], bool] | None:
        """A test of namespaces: whether the plugin, at present, admits all such writes in one unchanged.

        A write that passes the tests of all plugins skips their steps. None: the plugin needs to see every write.
        """
        return None

    def mutate(self, request: AdmissionRequest) -> Object | None:
        raise NotImplementedError

    def complete(self, request: AdmissionRequest) -> Object | None:
        raise NotImplementedError

    def validate(self, request: AdmissionRequest) -> None:
        raise NotImplementedError


class Admitted(msgspec.Struct, frozen=True):
    """The outcome of an asynchronous step that does not reject the write."""

    object: Object | None = None  # the changed object; None: no change
    warnings: tuple[str, ...] = ()
    # Added to the object, also by a step that validates: it is then prepared and validated again.
    annotations: tuple[tuple[str, str], ...] = ()
    reinvocation: Reinvocation | None = None  # None: unchanged


UNCONCERNED: Final = Admitted()  # the outcome of a step that has nothing to do with a write


class AsyncPlugin(Plugin):
    """Has one step: it either `mutates`, `completes` or `validates`."""

    # It concerns no write at present, as if no webhook is configured: cheaper than calling `concerns`.
    idle: bool = False
    calls_webhooks: ClassVar[bool] = False  # the request waits outside the server while the step runs
    annotates: ClassVar[bool] = False  # it validates, and its outcome may have annotations for the object

    def concerns(self, request: AdmissionRequest) -> bool:
        """Whether the step must run at all; a write that need not wait stays in the actor. Any thread may call it."""
        return True

    def may_concern(self, request: AdmissionRequest) -> bool:
        """False only if `concerns` will be False too, however other plugins change the object."""
        return True

    def admit_now(self, request: AdmissionRequest) -> Admitted | None:
        """Run the step if it need not wait: the write then stays in the actor. None: `admit` must run it.

        May return UNCONCERNED, and raise NeedsThread, to be called again in a worker thread. Any thread may call it.
        """
        return None if self.concerns(request) else UNCONCERNED

    async def admit(self, request: AdmissionRequest) -> Admitted:
        """Run the step. Must not change the request; may be cancelled, and called again if the object has changed."""
        raise NotImplementedError


def forbidden(request: AdmissionRequest, why: str, causes: Sequence[Cause] = ()) -> Forbidden:
    """An error that names the object; a create whose name is not generated yet shows its generateName."""
    return Forbidden(request.definition.resource, request.name or _name_in(request), why, causes)


def denied_mutation(request: AdmissionRequest, why: Sequence[str], reason: str) -> MutationDenied:
    """The error of mutating policies, for all their reasons."""
    return MutationDenied(request.definition.resource, request.name or _name_in(request), why, reason)


def denied(request: AdmissionRequest, why: str, reason: str) -> PolicyDenied:
    """The error of a policy, which names the object as `forbidden` does."""
    return PolicyDenied(request.definition.resource, request.name or _name_in(request), why, reason)


def _name_in(request: AdmissionRequest) -> str:
    metadata = (request.object or {}).get("metadata") or {}
    return metadata.get("name") or metadata.get("generateName") or "Unknown"
