"""Decides commands on large objects in a worker thread, while the actor goes on with other commands.

The actor starts one with `LargeCommands.start`, and the command comes back to its mailbox with a `LargeOutcome`: the
finished proposals, or an error. They are valid for one state of the object; if it has changed meanwhile, the actor
starts the command again. Admission plugins that are not safe in threads run in the event loop
(`Admission.for_threads`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import trio

from actors.resource.attempt import Attempt, Decided
from actors.resource.commands import Commands
from actors.resource.proposing import Body, Proposer, decide_and_propose
from actors.runtime.large_work import LargeWork
from actors.store.proposal import Proposal


@dataclass(frozen=True, slots=True)
class LargeResult:
    """What a command becomes if its object is still the one it was decided on."""

    decided: Decided
    body: Body
    proposals: list[Proposal]

    @property
    def written(self) -> int | Proposal:
        """The event that wrote the object on which the command was decided; 0 without one."""
        current = self.decided.current
        return 0 if current is None else current.written


@dataclass(frozen=True, slots=True)
class LargeOutcome:
    commands: LargeCommands  # the definitions with which it was decided
    attempt: Attempt
    result: LargeResult | Exception

    def release(self) -> None:
        """The outcome is not used: give back what admission plugins reserved."""
        self.attempt.release()


class LargeCommands:
    """The large commands of one resource type, with the definitions of one moment."""

    def __init__(self, work: LargeWork, commands: Commands, proposer: Proposer) -> None:
        self._work = work
        self._commands = commands  # only the worker thread uses it
        self._proposer = proposer

    def start(self, attempt: Attempt, done: Callable[[LargeOutcome], None]) -> trio.CancelScope:
        """Calls `done` exactly once, after this returns."""
        user = attempt.command.context.user
        return self._work.start(
            user, partial(self._decide, attempt), lambda result: done(LargeOutcome(self, attempt, result))
        )

    def _decide(self, attempt: Attempt) -> LargeResult:
        proposals: list[Proposal] = []
        decided, body = decide_and_propose(self._commands, self._proposer, attempt, proposals)
        return LargeResult(decided, body, proposals)
