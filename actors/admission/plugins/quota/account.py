"""What the objects of one namespace use of its quotas, exactly: stored objects, and writes that are under way.

An account is counted once from the journal and then follows its events. Writes that admission allowed are reserved
until they are durable or failed, so that any number of concurrent writes stays within the quotas.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from actors.admission.plugins.quota.amounts import ONE, ZERO, Amount, Usage, add, select, subtract, whole
from actors.admission.plugins.quota.quotas import Charges, Quota, QuotaSet
from actors.admission.plugins.quota.usage import ENDED, Demand
from actors.store.document import decode
from journal.records import Event
from journal.view import View

Key = tuple[int, str]  # type id and name


@dataclass(frozen=True, slots=True)
class Exceeded:
    quota: Quota
    requested: Usage
    used: Usage
    limited: Usage


class Account:
    def __init__(self, quotas: QuotaSet) -> None:
        self.quotas = quotas
        self.offset = 0  # of the last event that it includes
        self.used: list[dict[str, Amount]] = [dict.fromkeys(known, ZERO) for known in quotas.known]
        self._reserved: list[dict[str, Amount]] = [{} for _ in quotas.quotas]
        self._charges: dict[Key, Charges] = {}  # of measured objects
        # Pods that are being deleted, and when they stop to count.
        self._ending: dict[Key, tuple[int, Demand]] = {}
        self._schedule: list[tuple[int, Key]] = []

    def count(self, view: View) -> None:
        """Count all objects as of the view; only of a new account."""
        namespace, self.offset = self.quotas.namespace, view.head
        for type_id, charges in self.quotas.counted.items():
            number = whole(view.count(type_id, namespace))
            for used, usage in zip(self.used, charges, strict=True):
                add(used, {name: number for name, amount in usage.items() if amount == ONE})
        for type_id, measure in self.quotas.measured.items():
            for _, name, row in view.rows(type_id, namespace):
                self._record((type_id, name), measure.demand(decode(row.body)))

    def apply(self, event: Event) -> frozenset[int]:
        """Include an event of the namespace; returns the indexes of the quotas whose usage has changed."""
        if event.offset <= self.offset:
            return frozenset()
        self.offset = event.offset
        if (charges := self.quotas.counted.get(event.type_id)) is not None:
            return self._count_event(event, charges)
        measure = self.quotas.measured.get(event.type_id)
        if measure is None:
            return frozenset()
        demand = None if event.removed else measure.demand(decode(event.body))
        return self._record((event.type_id, event.name), demand)

    def _count_event(self, event: Event, charges: Charges) -> frozenset[int]:
        if event.removed:
            for used, usage in zip(self.used, charges, strict=True):
                subtract(used, usage)
        elif not event.previous:
            for used, usage in zip(self.used, charges, strict=True):
                add(used, usage)
        else:
            return frozenset()
        return frozenset(index for index, usage in enumerate(charges) if usage)

    def _record(self, key: Key, demand: Demand | None) -> frozenset[int]:
        before = self._charges.pop(key, None)
        self._ending.pop(key, None)
        after = None if demand is None else self.quotas.charges(demand)
        if demand is not None and after is not None and any(after):
            self._charges[key] = after
            if demand.until:
                self._ending[key] = demand.until, demand
                heapq.heappush(self._schedule, (demand.until, key))
                # Without a change yet, but the controller must know when to come back.
                return self._replace(before, after) | {index for index, usage in enumerate(after) if usage}
        return self._replace(before, after)

    def _replace(self, before: Charges | None, after: Charges | None) -> frozenset[int]:
        changed = set[int]()
        if before == after:
            return frozenset()
        for index, used in enumerate(self.used):
            old, new = before[index] if before else {}, after[index] if after else {}
            if old != new:
                changed.add(index)
                subtract(used, old)
                add(used, new)
        return frozenset(changed)

    def end(self, now: int) -> frozenset[int]:
        """Stop to count pods whose time is over; returns the indexes of the quotas whose usage has changed."""
        changed = frozenset[int]()
        while self._schedule and self._schedule[0][0] < now:
            until, key = heapq.heappop(self._schedule)
            ending = self._ending.get(key)
            if ending is not None and ending[0] == until:
                changed |= self._record(key, Demand(ENDED, ending[1].pod))
        return changed

    @property
    def next_end(self) -> int | None:
        """When the next pod stops to count, in microseconds since 1970."""
        return self._schedule[0][0] if self._schedule else None

    def exceeded(self, charges: Charges) -> Exceeded | None:
        """The first quota that does not allow the charges."""
        for index, charge in enumerate(charges):
            if not charge:
                continue
            used, reserved = self.used[index], self._reserved[index]
            hard = self.quotas.quotas[index].hard
            over = [
                name
                for name, (nanos, _) in charge.items()
                if nanos and used[name][0] + reserved.get(name, ZERO)[0] + nanos > hard[name][0]
            ]
            if over:
                return self._exceeded(index, charge, over)
        return None

    def _exceeded(self, index: int, charge: Usage, names: list[str]) -> Exceeded:
        used, reserved = self.used[index], self._reserved[index]
        quota = self.quotas.quotas[index]
        total = {name: _sum(used[name], reserved.get(name, ZERO)) for name in names}
        return Exceeded(quota, select(charge, names), total, select(quota.hard, names))

    def reserve(self, charges: Charges) -> None:
        for reserved, usage in zip(self._reserved, charges, strict=True):
            add(reserved, usage)

    def used_and_reserved(self) -> Iterator[tuple[int, dict[str, Amount]]]:
        """The index of each quota that writes under way use, and what is used with these."""
        for index, reserved in enumerate(self._reserved):
            if any(nanos for nanos, _ in reserved.values()):
                used = dict(self.used[index])
                add(used, {name: amount for name, amount in reserved.items() if amount[0]})
                yield index, used

    def release(self, charges: Charges) -> None:
        for reserved, usage in zip(self._reserved, charges, strict=True):
            subtract(reserved, usage)


def _sum(one: Amount, other: Amount) -> Amount:
    return one[0] + other[0], one[1] if one[0] else other[1]
