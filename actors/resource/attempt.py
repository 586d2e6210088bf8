"""One attempt to decide a command: what is known so far, and how far its admission is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from actors.admission.chain import EMPTY, Chain
from actors.admission.plugin import AsyncPlugin
from actors.admission.request import AdmissionRequest
from actors.kinds.declaration.definition import Conversions, Definition
from actors.messages import Command, Create, Object, Replace
from actors.resource.decide import Current, Decision, Store
from actors.store.proposal import Proposal
from journal.view import View


class Kept(NamedTuple):
    """What a paused command need not compute again, if neither its object nor the definitions have changed."""

    command: Create | Replace  # what a patch or apply makes of the current object, too
    current: Current | None
    verb: str
    warnings: tuple[str, ...]
    # Only while a validating step runs: the object that plugins see, and the one to store.
    new: Object | None = None
    prepared: Object | None = None


@dataclass(slots=True)
class Progress:
    """How far the admission of a command is while an asynchronous step runs outside the actor.

    It is valid for one state of the object: if the object has changed, admission starts again.
    """

    request: AdmissionRequest
    chain: Chain
    index: int  # of the step in its chain
    validating: bool  # the step validates; it cannot change the object
    # After the steps so far; while validating, that before preparation, or None for a create that has `kept`.
    object: Object | None
    written: int | Proposal  # the event that wrote the current object; 0 for a create
    kept: Kept | None = None

    @property
    def plugin(self) -> AsyncPlugin:
        plugin = (self.chain.checks if self.validating else self.chain.changes)[self.index].plugin
        assert plugin is not None
        return plugin


class Paused(Exception):
    """The command cannot be decided before an asynchronous step has its outcome."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress


class Attempt:
    """One attempt to decide a command. What few attempts have is in the class: every write creates one."""

    definition: Definition
    resumed: Progress | None = None  # None once it is used
    conversions: Conversions | None = None  # by webhooks, so far
    request: AdmissionRequest | None = None  # None if no plugin is concerned
    first_check = 0  # earlier checks have run
    decided: Decided | None = None  # set when only its events are still to be proposed
    chain: Chain = EMPTY  # with a request, that of the request
    written: int | Proposal = 0  # the event that wrote the object on which the command is decided
    admitted: Object | None = None  # the object before preparation, if a paused command would need it again

    def __init__(
        self,
        command: Command,
        view: View | None,  # None in a thread, where `Find` opens its own
        resumed: Progress | None = None,
        conversions: Conversions | None = None,
    ) -> None:
        self.command = command
        self.view = view
        if resumed is not None:
            self.resumed = resumed
        if conversions is not None:
            self.conversions = conversions

    def release(self) -> None:
        """Nothing follows: give back what admission plugins reserved."""
        if self.request is not None:
            self.request.complete(False)
        if self.resumed is not None:
            self.resumed.request.complete(False)


class Decided(NamedTuple):
    """A tuple, because every write creates one and a dataclass costs more."""

    decision: Decision
    current: Current | None
    verb: str  # what the journal records
    created: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name of the object."""
        if self.current is not None:
            metadata = self.current.object["metadata"]
        else:
            assert isinstance(self.decision, Store)
            metadata = self.decision.object["metadata"]
        return metadata.get("namespace", ""), metadata["name"]


# All fields, without the constructor in Python.
make_decided: Callable[[tuple[Decision, Current | None, str, bool, tuple[str, ...]]], Decided] = partial(
    tuple.__new__, Decided
)


def is_same_event(now: int | Proposal, then: int | Proposal) -> bool:
    """Whether the event that wrote the current object is the same as at an earlier moment."""
    if now is then or isinstance(then, int):
        return now == then
    # It was not committed then. If it is now, its offset is known.
    return then.event is not None and now == then.event.offset
