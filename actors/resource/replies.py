"""Replies that wait: what an actor responds once everything that the response depends on is durable.

The actor makes one `PendingReply` a command and gives those of a batch to the committer as one `CommitCallback`;
a reply that has nothing to wait for is completed at once. Invariant: every reply is completed once, also when the
commit fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.admission.request import AdmissionRequest
from actors.mailbox import Reply
from actors.messages import Outcome
from journal.records import Event


@dataclass(slots=True)
class PendingReply:
    reply: Reply[Outcome]
    outcome: Outcome | None
    error: Exception | None
    request: AdmissionRequest | None = None  # of a write that is to become durable

    def complete(self, failure: Exception | None) -> None:
        if self.request is not None:
            self.request.complete(failure is None)
        error = failure or self.error
        if error is not None:
            self.reply.fail(error)
        else:
            assert self.outcome is not None
            self.reply.answer(self.outcome)


class CommitCallback:
    """Called by the committer when a batch of one actor is durable or lost; the actor is notified first."""

    __slots__ = ("_committed", "_events", "_replies")

    def __init__(
        self,
        committed: Callable[[list[Event], Exception | None], None],
        events: list[Event],
        replies: list[PendingReply],
    ) -> None:
        self._committed, self._events, self._replies = committed, events, replies

    def __call__(self, failure: Exception | None) -> None:
        self._committed(self._events, failure)
        for reply in self._replies:
            reply.complete(failure)
