"""Turns a decision into proposed events and the body of the response. Pure, so that a worker thread can do it."""

from __future__ import annotations

from actors.kinds.declaration.definition import Definition
from actors.messages import Command, Object
from actors.resource.commands import Decided
from actors.resource.decide import Current, Keep, Remove, Store
from actors.store.document import encode, encode_unversioned, facts_of
from actors.store.proposal import Proposal

# The body of a response: complete, that of a proposed event, or without a version and with the event that has it.
Body = bytes | Proposal | tuple[bytes, Proposal]


class Proposer:
    """Proposes the events of one resource type."""

    __slots__ = ("_storage", "_type_id")

    def __init__(self, type_id: int, storage: Definition) -> None:
        self._type_id = type_id
        self._storage = storage

    def propose(self, decided: Decided, command: Command, proposals: list[Proposal]) -> Body:
        """Append the proposed events; returns the body of the response."""
        current, decision = decided.current, decided.decision
        match decision:
            case Store(object=new):
                if command.dry_run:
                    return _body(new, current)
                return self._append(new, current.written if current else 0, command, decided.verb, proposals)
            case Keep():
                assert current is not None
                return current.proposal or encode(current.object, current.offset)
            case Remove(last=dict(last)):
                assert current is not None
                if command.dry_run:
                    return _body(last, current)
                stored = self._append(last, current.written, command, decided.verb, proposals)
                self._append(last, stored, command, decided.verb, proposals, removed=True)
                return stored
            case Remove(returned=returned):
                assert current is not None
                if not command.dry_run:
                    written = current.written
                    self._append(current.object, written, command, decided.verb, proposals, removed=True)
                return _body(returned or current.object, current)

    def _append(
        self,
        stored: Object,
        previous: int | Proposal,
        command: Command,
        verb: str,
        proposals: list[Proposal],
        *,
        removed: bool = False,
    ) -> Proposal:
        context, metadata = command.context, stored["metadata"]
        proposal = Proposal(
            self._type_id,
            verb,
            metadata.get("namespace", ""),
            metadata["name"],
            previous,
            removed,
            context.time,
            context.user,
            context.manager,
            facts_of(self._storage, stored),
            encode_unversioned(stored),
            context.reason,
        )
        proposals.append(proposal)
        return proposal


def _body(stored: Object, current: Current | None) -> Body:
    """The body of an object with the version of the current one, or without a version if there is none."""
    if current is None:
        return encode(stored, 0)
    if current.proposal is None:
        return encode(stored, current.offset)
    return encode_unversioned(stored), current.proposal
