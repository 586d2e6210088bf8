"""One write as admission plugins see it, in the terms of Kubernetes' AdmissionRequest."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import field

from actors.kinds.declaration.definition import Definition
from actors.messages import DeleteOptions, Object, WriteContext
from actors.store.proposal import Proposal
from journal.classes.dataclass import dataclass

logger = logging.getLogger(__name__)

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


@dataclass(frozen=True, slots=True)
class Reinvocation:
    """What mutating webhooks did so far, for the second round."""

    due: bool = False  # one of them changed the object: all mutating plugins run once more
    round: int = 0
    called: frozenset[tuple[str, int]] = frozenset()  # IfNeeded webhooks, called since the last change
    again: frozenset[tuple[str, int]] = frozenset()  # IfNeeded webhooks to call in the second round
    output: Object | None = None  # the object after the last webhook


@dataclass(slots=True)
class AdmissionRequest:
    """Only the chain sets `object`, to the result of a plugin; plugins change nothing in the request."""

    operation: str  # CREATE, UPDATE, DELETE or CONNECT
    definition: Definition
    namespace: str
    name: str  # "" for a create with generateName
    subresource: str
    object: Object | None  # None for a delete; the options for a connect, which have no metadata
    old: Object | None
    user: str
    dry_run: bool
    context: WriteContext | None = None
    # Called once with whether the write became durable; plugins release reservations there.
    callbacks: list[Callable[[bool], None]] = field(default_factory=list)
    # Submits further writes that belong into the commit of this one. The actor calls it once for all requests of a
    # batch that have the same, right after it has submitted the batch.
    companion: Callable[[], None] | None = None

    warnings: list[str] = field(default_factory=list)  # for the client
    written: int | Proposal = 0  # the event that wrote `old`
    old_version: str = (
        ""  # of a custom kind: the version that `old` is in, if it may not be that of the definition
    )
    delete_options: DeleteOptions | None = None  # of a delete
    reinvocation: Reinvocation | None = None  # None: no webhook was called
    in_thread: bool = False  # a worker thread of trio runs the steps of plugins that are safe there
    phase_began: float = 0.0  # when its changes or checks began, by the clock of durations

    def viewed_in(self, definition: Definition) -> Definition:
        """The definition of `object`, where the resource has this definition: a view, or the options of a connect."""
        if self.operation == CONNECT:
            subresource = definition.subresource(self.subresource)
            assert subresource is not None and subresource.options is not None
            return subresource.options
        return definition.definition_at(self.subresource)

    def annotate(self, key: str, value: str) -> None:
        """Add an annotation to the audit event of the request, unless it has one with this key."""
        if self.context is not None and self.context.annotations is not None:
            self.context.annotations.setdefault(key, value)

    def complete(self, durable: bool) -> None:
        """Call the callbacks, each once, even if another one raises."""
        for callback in self.callbacks:
            try:
                callback(durable)
            except Exception:
                logger.exception("a callback of an admission plugin failed: %r", callback)
        self.callbacks.clear()


def annotated(document: Object, added: tuple[tuple[str, str], ...]) -> Object:
    metadata = document["metadata"]
    annotations = dict(sorted({**metadata.get("annotations", {}), **dict(added)}.items()))
    return {**document, "metadata": {**metadata, "annotations": annotations}}
