"""Commands of an actor that wait for a conversion webhook.

A command that needs an object in another version leaves the actor, and returns to its mailbox with the result. If it
was decided already, and only had to be stored in another version, admission does not run again.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.conversion.calls import ConversionCalls
from actors.errors import STALE, Conflict, ConversionFailed, ShuttingDown
from actors.kinds.declaration.definition import ConversionNeeded, Conversions, Definition
from actors.messages import Create
from actors.resource.attempt import Attempt, is_same_event
from actors.resource.commands import Commands
from actors.resource.current import CurrentObjects
from actors.resource.replies import Envelope, add_warnings
from actors.runtime.mailbox import Mailbox
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

    def start(self, envelope: Envelope, attempt: Attempt, needed: ConversionNeeded) -> None:
        """Call the webhook. RequestError if that is impossible."""
        if self._calls is None:
            raise ShuttingDown
        if attempt.conversions is None:
            attempt.conversions = Conversions()
        elif len(attempt.conversions) >= MAX_CONVERSIONS:
            name = needed.object["metadata"].get("name", "")
            raise Conflict(attempt.definition.resource, name, STALE)
        envelope.call = self._calls.start(needed, partial(self._done, envelope, attempt, needed))
        self._outside.add(envelope)

    def _done(
        self, envelope: Envelope, attempt: Attempt, needed: ConversionNeeded, outcome: bytes | Exception
    ) -> None:
        self._outside.discard(envelope)
        envelope.call, envelope.converted, envelope.came_back = None, attempt, True
        try:
            if isinstance(outcome, Exception) and not isinstance(outcome, ConversionFailed):
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

    Otherwise the command is decided anew, if the object has changed without the conversions of its last state.
    """
    command, decided = envelope.command, attempt.decided
    if decided is not None:
        written = 0 if decided.current is None else decided.current.written
        if attempt.definition is definition and is_same_event(current.written(view, *decided.key), written):
            commands.repeat_checks(attempt)
            return attempt
        attempt.release()
    elif isinstance(command, Create) or is_same_event(
        current.written(view, command.namespace, command.name), attempt.written
    ):
        return Attempt(command, view, attempt.resumed, conversions=attempt.conversions)
    envelope.stale = True
    return Attempt(command, view, attempt.resumed if decided is None else None)
