"""Commands on their way through an actor, with their replies: each is sent once all that it depends on is durable.

The actor gives a decided command its result, and passes the commands of a batch to the committer as one
`CommitCallback`; it completes one that has nothing to wait for at once. Bodies are encoded on completion, because the
offsets are only known then. Invariant: every command is completed once, even if the commit fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio
from trio.lowlevel import Abort

from actors.access.remote.deadlines import Deadlines
from actors.admission.calls import Cancellable
from actors.admission.request import AdmissionRequest
from actors.errors import RequestError, WriteTimedOut
from actors.messages import LONGEST_WRITE, Command, Delete, Deleted, Outcome, make_written
from actors.resource.attempt import Attempt, Decided, Progress
from actors.resource.decide import Remove
from actors.resource.large_commands import LargeOutcome
from actors.resource.proposing import Body
from actors.runtime.mailbox import Reply
from actors.store.document import at_version
from actors.store.proposal import Proposal, offset_of

logger = logging.getLogger(__name__)


class Envelope(Reply[Outcome]):
    """A command, the reply to it, and how far it is.

    What most commands never have is in the class: every write creates an envelope.
    """

    ticket: int = 0  # its place among the commands that wait for each other
    stale: bool = False  # its object has changed, so that it starts again
    ended: Callable[[Envelope], None] | None = None  # called when a command is decided that left the actor
    # Of the running admission step, thread or conversion, or its place in a line.
    call: Cancellable | None = None
    abandoned: bool = False  # the caller no longer waits for the reply
    # Those that came back have one of these.
    progress: Progress | None = None  # after an asynchronous admission step
    outcome: LargeOutcome | None = None  # after a thread has decided the command
    converted: Attempt | None = None  # after a conversion webhook has responded

    def __init__(self, command: Command) -> None:
        self._is_set, self._error, self._task = False, None, None  # cheaper than to call `super`
        self.command = command
        self.came_back = False  # from an admission step, a thread or a conversion
        # The result: what was decided and the body of the response, or an error.
        self.decided: Decided | None = None
        self.body: Body = b""
        self.error: Exception | None = None
        self.request: AdmissionRequest | None = (
            None  # of a write that is not durable yet, if it has callbacks
        )

    def take_request(self, attempt: Attempt, *, has_proposal: bool) -> None:
        """Complete the admission request of a decided command; with a proposal, when that is durable or failed."""
        if attempt.resumed is not None:
            attempt.resumed.request.complete(False)
        if attempt.request is not None and attempt.request.callbacks:
            if has_proposal:
                self.request = attempt.request
            else:
                attempt.request.complete(False)

    def limit(self, deadlines: Deadlines, ended: Callable[[Envelope], None]) -> None:
        """Let the time of a command begin that leaves the actor, unless it has. WriteTimedOut if it is over."""
        if self.ended is None:
            now, deadline = trio.current_time(), self.command.context.deadline
            if deadline <= now:
                raise WriteTimedOut(requested=True)
            self.ended = ended
            deadlines.add(self, min(deadline, now + LONGEST_WRITE))

    def expire(self) -> None:
        """The time of the command is over. A decided one is being stored: its reply will say what became of it."""
        if self.decided is None and self.error is None:
            requested = self.command.context.deadline <= trio.current_time()
            self.fail(WriteTimedOut(requested=requested))
            self.cancel()

    def end(self) -> None:
        """The command is decided or refused, and does not leave the actor again."""
        if self.ended is not None:
            self.ended(self)

    def refuse(self, error: BaseException) -> None:
        """Reply with an error, and give back what admission plugins reserved while the command was outside."""
        if self.progress is not None:
            self.progress.request.complete(False)
        if self.outcome is not None:
            self.outcome.release()
        if self.converted is not None:
            self.converted.release()
        self.fail(error)
        self.end()

    def cancel(self) -> None:
        """The caller no longer waits: end what runs outside the actor."""
        self.abandoned = True
        if self.call is not None:
            self.call.cancel()

    def _abort(self, raise_cancel: object) -> Abort:
        aborted = super()._abort(raise_cancel)  # first: `cancel` may reply
        self.cancel()
        return aborted

    def complete(self, failure: Exception | None) -> None:
        """Reply with the result, or with the failure of the commit."""
        if self.request is not None:
            self.request.complete(failure is None)
        error = failure or self.error
        if error is not None:
            self.fail(error)
            return
        decided, body = self.decided, self.body
        assert decided is not None
        if isinstance(body, Proposal):
            assert body.event is not None
            body = body.event.body
        elif isinstance(body, tuple):
            unversioned, written = body
            body = at_version(unversioned, offset_of(written))
        command = self.command
        if isinstance(command, Delete):
            self.succeed(_deleted(command, decided, body))
        else:
            self.succeed(make_written((body, decided.created, decided.warnings)))


class CallbackEnvelope(Envelope):
    """Calls a function when it has its reply, with the error if there is one; no task waits for it."""

    def __init__(self, command: Command, done: Callable[[BaseException | None], None]) -> None:
        super().__init__(command)
        self._done = done

    def _set(self) -> None:
        super()._set()
        self._done(self._error)


def _deleted(command: Delete, decided: Decided, body: bytes) -> Deleted:
    assert decided.current is not None
    removed = isinstance(decided.decision, Remove)
    uid = decided.current.object["metadata"]["uid"]
    return Deleted(body, command.name, uid, removed, decided.warnings)


class CommitCallback:
    """The committer calls it when a batch of one actor is durable or failed; it notifies the actor first."""

    __slots__ = ("_committed", "_envelopes", "_proposals")

    def __init__(
        self,
        committed: Callable[[list[Proposal], Exception | None], None],
        proposals: list[Proposal],
        envelopes: list[Envelope],
    ) -> None:
        self._committed, self._proposals, self._envelopes = committed, proposals, envelopes

    def __call__(self, failure: Exception | None) -> None:
        self._committed(self._proposals, failure)
        for envelope in self._envelopes:
            try:
                envelope.complete(failure)
            except Exception as crash:
                logger.exception("the reply to a command failed: %r", type(envelope.command))
                envelope.fail(crash)


def add_warnings(error: Exception, request: AdmissionRequest | None) -> None:
    """A refused write has the warnings of admission too."""
    if request is not None and request.warnings and isinstance(error, RequestError):
        error.warnings = (*request.warnings, *error.warnings)
