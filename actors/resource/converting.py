"""Commands of an actor that wait for a conversion webhook.

A command that needs an object in another version leaves the actor, and returns to its mailbox with the result. If it
was decided already, and only had to be stored in another version, admission does not run again.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.conversion.calls import ConversionCalls
from actors.errors import STALE, Conflict, RequestError, ShuttingDown
from actors.kinds.declaration.definition import Definition
from actors.kinds.declaration.versions import ConversionNeeded, Conversions
from actors.mailbox import Mailbox
from actors.resource.attempt import Attempt, is_same_event
from actors.resource.commands import Commands
from actors.resource.current import CurrentObjects
from actors.resource.replies import MAX_RETRIES, Envelope, add_warnings
from journal.view import View

# How many conversions one command may need: three, and two for each version that field managers used.
MAX_CONVERSIONS: Final = 64


class ConvertingCommands:
    def __init__(
        self, calls: ConversionCalls | None, mailbox: Mailbox[Envelope], outside: set[Envelope]
    ) -> None:
        """`outside` are all commands that are to return to the mailbox."""
        self._calls = calls
        self._mailbox = mailbox
        self._outside = outside

    def start(self, envelope: Envelope, attempt: Attempt, needed: ConversionNeeded) -> bool:
        """Call the webhook. True if that is impossible: the command has its error."""
        envelope.progress = None
        try:
            if envelope.abandoned or self._calls is None:
                raise ShuttingDown
            if attempt.conversions is None:
                attempt.conversions = Conversions()
            elif len(attempt.conversions) >= MAX_CONVERSIONS:
                name = needed.object["metadata"].get("name", "")
                raise Conflict(attempt.definition.resource, name, STALE)
            envelope.call = self._calls.start(needed, partial(self._done, envelope, attempt, needed))
        except RequestError as error:
            attempt.release()
            envelope.error = error
            return True
        self._outside.add(envelope)
        return False

    def _done(
        self, envelope: Envelope, attempt: Attempt, needed: ConversionNeeded, outcome: bytes | Exception
    ) -> None:
        self._outside.discard(envelope)
        envelope.call, envelope.converted, envelope.came_back = None, attempt, True
        try:
            if isinstance(outcome, Exception):
                raise outcome
            assert attempt.conversions is not None
            attempt.conversions.add(needed, outcome)
            self._mailbox.put_back(envelope)
        except Exception as error:
            add_warnings(error, attempt.request)
            envelope.refuse(error)
        self._mailbox.wake()


def attempt_after(
    current: CurrentObjects,
    commands: Commands,
    definition: Definition | None,
    view: View,
    envelope: Envelope,
    attempt: Attempt,
) -> Attempt:
    """What follows a conversion: a decided command goes on, unless object or definition have changed.

    Otherwise the command is decided anew. Conflict if that happens too often.
    """
    decided = attempt.decided
    if decided is None:
        return Attempt(envelope.command, view, attempt.resumed, conversions=attempt.conversions)
    written = 0 if decided.current is None else decided.current.written
    if attempt.definition is definition and is_same_event(current.written(view, *decided.key), written):
        commands.repeat_checks(attempt)
        return attempt
    attempt.release()
    envelope.retries += 1
    if envelope.retries > MAX_RETRIES:
        raise Conflict(attempt.definition.resource, decided.key[1], STALE)
    return Attempt(envelope.command, view, conversions=attempt.conversions)
