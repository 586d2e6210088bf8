"""Pending replies of an actor: each is sent once everything that it depends on is durable.

The actor creates one `PendingReply` per command and passes those of a batch to the committer as one `CommitCallback`;
it completes a reply that has nothing to wait for at once. Bodies are encoded on completion, because the offsets are
only known then. Invariant: every reply is completed once, even if the commit fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from actors.admission.request import AdmissionRequest
from actors.errors import RequestError
from actors.mailbox import Reply
from actors.messages import Command, Delete, Deleted, Outcome, Written
from actors.resource.attempt import Attempt, Decided, Progress
from actors.resource.decide import Remove
from actors.resource.large_commands import LargeOutcome
from actors.resource.proposing import Body
from actors.store.document import at_version
from actors.store.proposal import Proposal, offset_of
from journal.classes.dataclass import dataclass

logger = logging.getLogger(__name__)

# How often a command starts again because the object has changed meanwhile: as often as Kubernetes retries a patch.
MAX_RETRIES = 5


@dataclass(slots=True, eq=False)
class Envelope:
    command: Command
    reply: Reply[Outcome]
    progress: Progress | None = None  # set after an asynchronous admission step
    retries: int = 0  # how often it started again because the object had changed
    call: trio.CancelScope | None = None  # of the running admission step or thread
    outcome: LargeOutcome | None = None  # set after a thread has decided the command
    converted: Attempt | None = None  # set after a conversion webhook has responded
    abandoned: bool = False  # the caller no longer waits for the reply

    @property
    def was_outside(self) -> bool:
        """Whether it comes back from an admission step, a thread or a conversion."""
        return self.progress is not None or self.outcome is not None or self.converted is not None

    def fail(self, error: BaseException) -> None:
        if self.progress is not None:
            self.progress.request.complete(False)
        if self.outcome is not None:
            self.outcome.release()
        if self.converted is not None:
            self.converted.release()
        self.reply.fail(error)


@dataclass(slots=True)
class PendingReply:
    envelope: Envelope
    decided: Decided | None
    body: Body
    error: Exception | None
    request: AdmissionRequest | None = None  # of a write that is not durable yet

    def complete(self, failure: Exception | None) -> None:
        if self.request is not None:
            self.request.complete(failure is None)
        error = failure or self.error
        if error is not None:
            self.envelope.reply.fail(error)
        else:
            assert self.decided is not None
            self.envelope.reply.succeed(_outcome(self.envelope.command, self.decided, _resolved(self.body)))


def _outcome(command: Command, decided: Decided, body: bytes) -> Outcome:
    if not isinstance(command, Delete):
        return Written(body, decided.created, decided.warnings)
    assert decided.current is not None
    removed = isinstance(decided.decision, Remove)
    uid = decided.current.object["metadata"]["uid"]
    return Deleted(body, command.name, uid, removed, decided.warnings)


def _resolved(body: Body) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, Proposal):
        assert body.event is not None
        return body.event.body
    unversioned, written = body
    return at_version(unversioned, offset_of(written))


class CommitCallback:
    """The committer calls it when a batch of one actor is durable or failed; it notifies the actor first."""

    __slots__ = ("_committed", "_proposals", "_replies")

    def __init__(
        self,
        committed: Callable[[list[Proposal], Exception | None], None],
        proposals: list[Proposal],
        replies: list[PendingReply],
    ) -> None:
        self._committed, self._proposals, self._replies = committed, proposals, replies

    def __call__(self, failure: Exception | None) -> None:
        self._committed(self._proposals, failure)
        for reply in self._replies:
            try:
                reply.complete(failure)
            except Exception as crash:
                logger.exception("the reply to a command failed: %r", type(reply.envelope.command))
                reply.envelope.reply.fail(crash)


def add_warnings(error: Exception, request: AdmissionRequest | None) -> None:
    """A refused write has the warnings of admission too."""
    if request is not None and request.warnings and isinstance(error, RequestError):
        error.warnings = (*request.warnings, *error.warnings)
