"""Answers that wait: what an actor tells a sender once everything that the answer depends on is durable.

The actor makes one `Answer` a command and hands those of a batch to the committer as one `Settlement`; who has
nothing to wait for is told at once. Invariant: every answer is given once, also when the commit fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.admission.chain import Review
from actors.mailbox import Reply
from actors.messages import Outcome
from journal.records import Event


@dataclass(slots=True)
class Answer:
    reply: Reply[Outcome]
    outcome: Outcome | None
    error: Exception | None
    review: Review | None = None  # of a write that is to become durable

    def give(self, failure: Exception | None) -> None:
        if self.review is not None:
            self.review.settle(failure is None)
        error = failure or self.error
        if error is not None:
            self.reply.fail(error)
        else:
            assert self.outcome is not None
            self.reply.answer(self.outcome)


class Settlement:
    """Called by the committer when a batch of one actor is durable or lost; the actor learns of it first."""

    __slots__ = ("_answers", "_events", "_settled")

    def __init__(
        self,
        settled: Callable[[list[Event], Exception | None], None],
        events: list[Event],
        answers: list[Answer],
    ) -> None:
        self._settled, self._events, self._answers = settled, events, answers

    def __call__(self, failure: Exception | None) -> None:
        self._settled(self._events, failure)
        for answer in self._answers:
            answer.give(failure)
