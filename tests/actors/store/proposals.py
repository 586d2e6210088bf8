"""Proposed events for tests of the committer."""

from __future__ import annotations

from rewound.actors.store.proposal import Proposal

BODY = b'{"metadata":{"name":"x","resourceVersion":""}}'


def creation(type_id: int, name: str, previous: int | Proposal = 0, time: int = 1) -> Proposal:
    return Proposal(
        type_id=type_id,
        verb="create",
        namespace="ns",
        name=name,
        previous=previous,
        removed=False,
        time=time,
        user="user",
        manager="manager",
        facts=b"\x90",
        body=BODY,
    )
