"""A RequestObserver that records every stage, and fails if one is reported twice or after the last one."""

from __future__ import annotations

from dataclasses import dataclass, field

import trio

from rewound.actors.access.authorize import Attributes, Decision
from rewound.gateway.message import Request


@dataclass
class Record:
    """The record of one request; `stages` in the order in which they were reported."""

    observer: Observer
    method: str
    path: str
    audit_id: bytes
    stages: list[str] = field(default_factory=lambda: ["received"])
    observed_attributes: Attributes | None = None
    observed_decision: Decision | None = None
    error: BaseException | None = None
    status: int = -1
    sent: int = -1
    cut_off: bool = False

    def _note(self, stage: str) -> None:
        assert stage not in self.stages, f"{stage} twice: {self.stages}"
        assert self.stages[-1] != "complete", f"{stage} after the end: {self.stages}"
        self.stages.append(stage)

    def attributes(self, attributes: Attributes) -> None:
        self._note("attributes")
        self.observed_attributes = attributes

    def decision(self, decision: Decision) -> None:
        self._note("decision")
        self.observed_decision = decision

    def response_started(self, status: int) -> None:
        self._note("started")
        self.status = status

    def panic(self, error: BaseException | None) -> None:
        self._note("panic")
        self.error = error

    def response_complete(self, status: int, sent: int, *, cut_off: bool) -> None:
        self._note("complete")
        assert self.status in (-1, status), "the status differs from that of the head"
        self.status, self.sent, self.cut_off = status, sent, cut_off
        self.observer.changed.unpark_all()

    @property
    def end(self) -> tuple[int, int, bool]:
        assert self.stages[-1] == "complete"
        return self.status, self.sent, self.cut_off


class Observer:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.changed = trio.lowlevel.ParkingLot()

    def received(self, request: Request) -> Record:
        record = Record(self, request.method, request.path, b"observed-%d" % len(self.records))
        self.records.append(record)
        return record

    async def ended(self, count: int, path: str = "") -> list[Record]:
        """Wait until this many requests for the path (or for all paths) have ended, and return their records."""
        while True:
            found = [record for record in self.records if record.path.startswith(path)]
            if len(found) >= count and all(record.stages[-1] == "complete" for record in found):
                assert len(found) == count
                return found
            await self.changed.park()
