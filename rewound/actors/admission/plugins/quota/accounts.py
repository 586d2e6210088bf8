"""The exact usage of quotas in each namespace that has some: by stored objects, and by writes in progress.

`QuotaAccounts` serves admission and the controller of quota status; the feed keeps it up to date. A namespace is
counted when its `Account` is first needed, and again when a quota of it is created, deleted or gets another spec. The
event loop counts small namespaces; counting a large one needs a thread: `scan` there, then `install` in the event loop.

Writes that admission allowed are reserved until they are durable or failed, so that any number of concurrent writes
stays within the quotas.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from rewound.actors.admission.plugins.quota.usage import (
    COUNT,
    ENDED,
    NOTHING,
    OLD_COUNTS,
    ONE,
    ZERO,
    Amount,
    Demand,
    Measure,
    PodTraits,
    Requirement,
    Usage,
    add,
    measures,
    parse_amounts,
    parse_scopes,
    select,
    subtract,
    texts_of,
    whole,
)
from rewound.actors.errors import Resource
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.document import decode
from rewound.actors.store.feed import Feed
from rewound.actors.store.misfits import each_usable
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.journal.view import View

FEW: Final = 64  # objects parsed on the event loop: about two milliseconds

QuotaKey = tuple[str, str]  # namespace and name of a quota
Changed = Callable[[QuotaKey], None]


class QuotaAccounts:
    def __init__(
        self,
        names: Names,
        journal: Journal,
        feed: Feed,
        features: frozenset[str] = frozenset(),
        limits_of: str = "spec",
    ) -> None:
        """`limits_of`: the part of a quota with the limits, `status` if its controller is not in this server."""
        self._journal, self._feed, self._limits_of = journal, feed, limits_of
        self._type_id = journal.type_id("resourcequotas")
        self.measures = measures(names, features)
        self._quotas: dict[str, dict[str, Quota]] = {}
        self._sets: dict[str, QuotaSet] | None = None
        self._accounts: dict[str, Account] = {}
        self._reservations: dict[str, dict[object, Demand]] = {}
        self._listeners: list[Changed] = []
        self._charge: Callable[[QuotaKey, dict[str, str]], None] | None = None
        self._charges: dict[str, Callable[[], None]] = {}  # of each namespace with writes in progress
        feed.follow(self._committed)

    @property
    def version(self) -> int:
        """The accounts include all changes up to this version."""
        return self._feed.head

    def write_with(self, charge: Callable[[QuotaKey, dict[str, str]], None]) -> None:
        """Call `charge` with the usage of a quota, right after writes that use it were submitted."""
        self._charge = charge

    def listen(self, changed: Changed) -> None:
        """Call `changed` for each quota whose usage or spec changes."""
        self._listeners.append(changed)

    def quotas_of(self, namespace: str) -> QuotaSet | None:
        """The quotas of a namespace; None if it has none. Not for threads."""
        if self._sets is None:
            self._sets = self._read()
        return self._sets.get(namespace)

    def has_no_quotas(self, namespace: str) -> bool:
        """Whether a namespace has none; False if quotas were not read yet. Not for threads."""
        return self._sets is not None and namespace not in self._sets

    def all_quotas(self) -> list[QuotaKey]:
        self.quotas_of("")
        return [(namespace, name) for namespace, quotas in self._quotas.items() for name in quotas]

    def account(self, namespace: str) -> Account | None:
        """The account; None if it must first be counted in a thread. The namespace must have quotas."""
        found = self._accounts.get(namespace)
        if found is not None:
            return found
        quotas = self.quotas_of(namespace)
        assert quotas is not None
        with self._journal.read() as view:
            if sum(view.count(type_id, namespace) for type_id in quotas.measured) > FEW:
                return None
            counted = Account(quotas)
            counted.count(view)
        self.install(counted)
        return counted

    def scan(self, quotas: QuotaSet) -> Account:
        """Count a namespace, in a thread."""
        counted = Account(quotas)
        with self._journal.read() as view:
            counted.count(view)
        with self._journal.read() as view:
            self._follow(counted, view, view.head)
        return counted

    def install(self, counted: Account) -> None:
        """Use a counted account, unless the quotas have changed meanwhile or another one was faster."""
        namespace = counted.quotas.namespace
        if self.quotas_of(namespace) is not counted.quotas or namespace in self._accounts:
            return
        with self._journal.read() as view:
            self._follow(counted, view, self._feed.head)
        for demand in self._reservations.get(namespace, {}).values():
            counted.reserve(counted.quotas.charges(demand))
        self._accounts[namespace] = counted

    def reserve(self, account: Account, demand: Demand, charges: Charges) -> Callable[[bool], None]:
        """Reserve a demand; the caller calls the returned function when the write is durable or failed."""
        namespace, token = account.quotas.namespace, object()
        account.reserve(charges)
        self._reservations.setdefault(namespace, {})[token] = demand

        def release(durable: bool) -> None:
            reservations = self._reservations[namespace]
            del reservations[token]
            if not reservations:
                del self._reservations[namespace]
                self._charges.pop(namespace, None)
            current = self._accounts.get(namespace)
            if current is not None:
                # If a quota changed in the meantime, the demand was reserved again, in the new account.
                released = charges if current is account else current.quotas.charges(demand)
                current.release(released)
                if not durable:  # a status may have been written with it
                    self._report(current, frozenset(index for index, usage in enumerate(released) if usage))

        return release

    def companion(self, namespace: str) -> Callable[[], None]:
        """A function that writes the usage of a namespace's quotas; the same for all writes in progress there."""
        found = self._charges.get(namespace)
        if found is None:
            found = self._charges[namespace] = partial(self._write_used, namespace)
        return found

    def _write_used(self, namespace: str) -> None:
        """Including reservations: the writes that the actor has just submitted."""
        account = self._accounts.get(namespace)
        if account is not None and self._charge is not None:
            for index, used in account.used_and_reserved():
                self._charge((namespace, account.quotas.quotas[index].name), texts_of(used))

    def end(self, account: Account, now: int) -> None:
        """Stop counting pods whose time is over."""
        self._report(account, account.end(now))

    def _follow(self, account: Account, view: View, head: int) -> None:
        """Apply the events that were committed since the account was counted."""
        if view.head <= account.offset:
            return
        for event in view.events(account.offset):
            if event.offset > head:
                return
            if event.namespace == account.quotas.namespace:
                account.apply(event)

    def _read(self) -> dict[str, QuotaSet]:
        with self._journal.read() as view:

            def take(namespace: str, name: str, body: bytes) -> None:
                parsed = self._parse(body)
                self._quotas.setdefault(namespace, {})[name] = parsed

            each_usable("resourcequotas", view.rows(self._type_id, None), take)
        return {namespace: self._set_of(namespace) for namespace in self._quotas}

    def _parse(self, body: bytes) -> Quota:
        return parse_quota(decode(body), self._limits_of)

    def _set_of(self, namespace: str) -> QuotaSet:
        return QuotaSet(namespace, self._quotas[namespace], self.measures, self._journal)

    def _committed(self, events: Sequence[Event]) -> None:
        sets = self._sets
        if sets is None:
            return
        for event in events:
            if event.namespace in sets:
                account = self._accounts.get(event.namespace)
                if account is not None:
                    self._report(account, account.apply(event))
            if event.type_id == self._type_id:
                self._quota_committed(event, sets)

    def _quota_committed(self, event: Event, sets: dict[str, QuotaSet]) -> None:
        namespace, quotas = event.namespace, self._quotas.setdefault(event.namespace, {})
        after = None if event.removed else self._parse(event.body)
        if quotas.get(event.name) == after:
            if not quotas:
                del self._quotas[namespace]
            return
        self._accounts.pop(namespace, None)
        if after is not None:
            quotas[event.name] = after
        else:
            del quotas[event.name]
        if quotas:
            sets[namespace] = self._set_of(namespace)
        else:
            del self._quotas[namespace], sets[namespace]
        self.report((namespace, event.name))

    def _report(self, account: Account, changed: frozenset[int]) -> None:
        for index in changed:
            self.report((account.quotas.namespace, account.quotas.quotas[index].name))

    def report(self, key: QuotaKey) -> None:
        """Let the listeners check the status of a quota."""
        for listener in self._listeners:
            listener(key)


Key = tuple[int, str]  # type id and name


class Exceeded(msgspec.Struct, frozen=True):
    quota: Quota
    requested: Usage
    used: Usage
    limited: Usage


class Account:
    """The exact usage of one namespace's quotas: by stored objects, and by writes in progress.

    An account is counted once from the journal and then follows its events. Writes that admission allowed are reserved
    until they are durable or failed, so that any number of concurrent writes stays within the quotas.
    """

    def __init__(self, quotas: QuotaSet) -> None:
        self.quotas = quotas
        self.offset = 0  # of the last event that it includes
        self.used: list[dict[str, Amount]] = [dict.fromkeys(known, ZERO) for known in quotas.known]
        self._reserved: list[dict[str, Amount]] = [{} for _ in quotas.quotas]
        self._charges: dict[Key, Charges] = {}  # of measured objects
        # Pods that are being deleted, and when they stop counting.
        self._ending: dict[Key, tuple[int, Demand]] = {}
        self._schedule: list[tuple[int, Key]] = []

    def count(self, view: View) -> None:
        """Count all objects as of the view; only for a new account."""
        namespace, self.offset = self.quotas.namespace, view.head
        for type_id, charges in self.quotas.counted.items():
            number = whole(view.count(type_id, namespace))
            for used, usage in zip(self.used, charges, strict=True):
                add(used, {name: number for name, amount in usage.items() if amount == ONE})
        for type_id, measure in self.quotas.measured.items():

            def take(_: str, name: str, body: bytes, key: int = type_id, of: Measure = measure) -> None:
                self._record((key, name), of.demand(decode(body)))

            each_usable("objects that quotas count", view.rows(type_id, namespace), take)

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
                # Nothing has changed yet, but the controller must know when to check again.
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
        """Stop counting pods whose time is over; returns the indexes of the quotas whose usage has changed."""
        changed = frozenset[int]()
        while self._schedule and self._schedule[0][0] < now:
            until, key = heapq.heappop(self._schedule)
            ending = self._ending.get(key)
            if ending is not None and ending[0] == until:
                changed |= self._record(key, Demand(ENDED, ending[1].pod))
        return changed

    @property
    def next_end(self) -> int | None:
        """When the next pod stops counting, in microseconds since 1970."""
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
        """The index of each quota that writes in progress use, and the usage including these."""
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


Charges = tuple[Usage, ...]  # one usage for each quota


class Quota(msgspec.Struct, frozen=True):
    name: str
    hard: Usage
    texts: Mapping[str, str]  # `hard` as stored
    scopes: tuple[Requirement, ...]

    def selects(self, pod: PodTraits | None) -> bool:
        if pod is None:
            return not self.scopes
        return all(one.selects(pod) for one in self.scopes)


def parse_quota(stored: Object, limits_of: str = "spec") -> Quota:
    texts = stored.get(limits_of, {}).get("hard") or {}
    return Quota(stored["metadata"]["name"], parse_amounts(texts), texts, parse_scopes(stored["spec"]))


class QuotaSet:
    """All quotas of a namespace in the order of their names. Immutable."""

    def __init__(
        self, namespace: str, quotas: Mapping[str, Quota], measures: tuple[Measure, ...], journal: Journal
    ) -> None:
        self.namespace = namespace
        self._journal = journal
        self.quotas = tuple(quotas[name] for name in sorted(quotas))
        names = {name for quota in self.quotas for name in quota.hard}
        self.measured: dict[int, Measure] = {}
        covered = set[str]()
        for measure in measures:
            if own := {name for name in names if measure.covers(name)}:
                self.measured[journal.type_id(str(measure.resource))] = measure
                covered |= own
        self.counted = self._counted(names - covered, journal)
        counted = {name for charges in self.counted.values() for usage in charges for name in usage}
        # The names whose usage is known, by quota. No kind has the others.
        self.known = tuple(
            frozenset(name for name in quota.hard if name in covered or name in counted)
            for quota in self.quotas
        )

    def _counted(self, names: set[str], journal: Journal) -> dict[int, Charges]:
        """The charge of one object, by type id, for kinds of which only the number counts."""
        usages: dict[int, dict[str, Amount]] = {}
        for name in names:
            counted = name if name in OLD_COUNTS else name.removeprefix(COUNT)
            type_id = journal.type_id(counted) if counted != name or name in OLD_COUNTS else 0
            if type_id and counted.partition(".")[0] != "events":
                usages.setdefault(type_id, {})[name] = ONE
        return {
            type_id: tuple(_charge_of_one(usage, quota) for quota in self.quotas)
            for type_id, usage in usages.items()
        }

    def counts(self, resource: Resource) -> bool:
        """Whether a quota counts objects of this kind."""
        type_id = self._journal.type_id(str(resource))
        return type_id in self.counted or type_id in self.measured

    def charges(self, demand: Demand) -> Charges:
        return tuple(
            select(demand.usage, known) if quota.selects(demand.pod) else NOTHING
            for quota, known in zip(self.quotas, self.known, strict=True)
        )


def _charge_of_one(usage: Usage, quota: Quota) -> Usage:
    """Quotas with scopes count only pods: in these, the number of other objects stays 0."""
    selected = select(usage, quota.hard)
    return dict.fromkeys(selected, ZERO) if quota.scopes else selected
