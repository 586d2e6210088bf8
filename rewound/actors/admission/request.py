"""One write as admission plugins see it, in the terms of Kubernetes' AdmissionRequest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from math import inf
from typing import NamedTuple

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import DeleteOptions, Object, WriteContext
from rewound.actors.store.proposal import Proposal

logger = logging.getLogger(__name__)

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


class Invoked(NamedTuple):
    """Which webhooks or policies of one plugin ran, and which of them run again in the second round."""

    called: frozenset[Hashable] = frozenset()  # those with IfNeeded, called since the last change
    again: frozenset[Hashable] = frozenset()  # those with IfNeeded, to call in the second round
    output: Object | None = None  # the object after the last one

    def changed(self) -> Invoked:
        """After a change of the object, everything that was called before it is called again."""
        return self._replace(called=frozenset(), again=self.again | self.called) if self.called else self

    def since(self, now: Object | None) -> Invoked:
        """In the second round: whether other plugins have changed the object since this one ran."""
        return self.changed() if self.called and now != self.output else self


class Reinvocation(NamedTuple):
    """The state of mutating policies and webhooks after the first round, for the second."""

    due: bool = False  # one of them changed the object: all mutating plugins run once more
    round: int = 0
    policies: Invoked = Invoked()
    webhooks: Invoked = Invoked()


class AdmissionRequest:
    """The input of plugins, which do not change it. Only the chain sets `object`, to the result of a plugin."""

    def __init__(
        self,
        operation: str,  # CREATE, UPDATE, DELETE or CONNECT
        definition: Definition,
        namespace: str,
        name: str,  # "" for a create with generateName
        subresource: str,
        new: Object | None,  # None for a delete; the options for a connect, which have no metadata
        old: Object | None,
        user: str,
        dry_run: bool,
        context: WriteContext | None = None,
    ) -> None:
        self.operation = operation
        self.definition = definition
        self.namespace = namespace
        self.name = name
        self.subresource = subresource
        self.object = new
        self.old = old
        self.user = user
        self.dry_run = dry_run
        self.context = context
        self.written: int | Proposal = 0  # the event that wrote `old`
        # Of a custom kind: the version of `old`, if it may differ from the definition's.
        self.old_version = ""
        self.sent_empty: frozenset[str] = (
            frozenset()
        )  # lists that were sent empty, and are missing in the object
        self.is_patch = False  # an update that the client sent as a patch
        self.delete_options: DeleteOptions | None = None  # of a delete
        self.in_collection = False  # a delete of a whole collection: webhooks get no name
        self.evicts = False  # a delete that is part of an eviction: webhooks have reviewed the Eviction
        self.in_thread = False  # a worker thread of trio runs the steps of plugins that are safe there
        self.warnings: tuple[str, ...] = ()  # for the client
        self.reinvocation: Reinvocation | None = None  # None: no policy and no webhook ran
        # Called once with whether the write became durable; plugins release reservations there.
        self.callbacks: tuple[Callable[[bool], None], ...] = ()
        # Submits further writes that belong to the commit of this one; only for requests with callbacks. The actor
        # calls it once for all requests of a batch that share it, right after it has submitted the batch.
        self.companion: Callable[[], None] | None = None
        self.counted_at = 0  # the version of the state in which quotas allowed it
        self.deadline = inf  # for ephemeral objects, by trio's clock; set when it first waits
        self.phase_began = 0.0  # when its changes or checks began, by the clock of durations

    def with_object(self, changed: Object) -> AdmissionRequest:
        """A copy with another object."""
        other = AdmissionRequest.__new__(AdmissionRequest)
        other.__dict__.update(self.__dict__)
        other.object = changed
        return other

    def viewed_in(self, definition: Definition) -> Definition:
        """The definition of `object` if the resource has this one: that of a view, or of the options of a connect."""
        if self.operation == CONNECT:
            subresource = definition.subresource(self.subresource)
            assert subresource is not None and subresource.options is not None
            return subresource.options
        return definition.definition_at(self.subresource)

    def annotate(self, key: str, value: str) -> None:
        """Add an annotation to the audit event of the request, unless it already has one with this key."""
        if self.context is not None and self.context.annotations is not None:
            self.context.annotations.setdefault(key, value)

    def complete(self, durable: bool) -> None:
        """Call each callback once, even if another one raises."""
        callbacks, self.callbacks = self.callbacks, ()
        for callback in callbacks:
            try:
                callback(durable)
            except Exception:
                logger.exception("a callback of an admission plugin failed: %r", callback)
