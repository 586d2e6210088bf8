"""Replies that wait: what an actor responds once everything that the response depends on is durable.

The actor makes one `PendingReply` a command and gives those of a batch to the committer as one `CommitCallback`;
a reply that has nothing to wait for is completed at once. Bodies are made then, because only then offsets are known.
Invariant: every reply is completed once, also when the commit fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio

from actors.admission.request import AdmissionRequest
from actors.mailbox import Reply
from actors.messages import Command, Delete, Deleted, Outcome, Written
from actors.resource.commands import Decided, Progress
from actors.resource.decide import Remove
from actors.store.document import at_version
from actors.store.proposal import Proposal, offset_of

# Of a response: as it is, as an event has it, or unversioned together with the event whose version it shows.
Body = bytes | Proposal | tuple[bytes, Proposal]


@dataclass(slots=True, eq=False)
class Envelope:
    command: Command
    reply: Reply[Outcome]
    progress: Progress | None = None  # of a command that comes back from an asynchronous admission step
    retries: int = 0  # how often admission began anew because the object had changed
    call: trio.CancelScope | None = None  # of the step under way
    abandoned: bool = False  # nobody waits for the reply any more

    def fail(self, error: BaseException) -> None:
        if self.progress is not None:
            self.progress.request.complete(False)
        self.reply.fail(error)


@dataclass(slots=True)
class PendingReply:
    envelope: Envelope
    decided: Decided | None
    body: Body
    error: Exception | None
    request: AdmissionRequest | None = None  # of a write that is to become durable

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
    gone = isinstance(decided.decision, Remove)
    return Deleted(body, command.name, decided.current.object["metadata"]["uid"], removed=gone)


def _resolved(body: Body) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, Proposal):
        assert body.event is not None
        return body.event.body
    unversioned, written = body
    return at_version(unversioned, offset_of(written))


class CommitCallback:
    """Called by the committer when a batch of one actor is durable or lost; the actor is notified first."""

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
            reply.complete(failure)
