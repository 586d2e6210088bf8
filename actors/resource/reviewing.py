"""What admission is told of a command: the object that is sent, the one that is there, and where they belong."""

from __future__ import annotations

from actors.admission.chain import Review
from actors.kinds.declaration.definition import Definition
from actors.messages import Command, Create, Object, Patch, Replace, Submit


def review_of(
    operation: str, definition: Definition, command: Command, new: Object | None, old: Object | None
) -> Review:
    return Review(
        operation,
        definition,
        command.namespace,
        command.object["metadata"].get("name", "") if isinstance(command, Create) else command.name,
        command.subresource if isinstance(command, Replace | Patch | Submit) else "",
        new,
        old,
        command.stamp.user,
        command.dry_run,
        command.stamp,
    )
