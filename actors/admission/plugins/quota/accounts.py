"""The accounts of all namespaces with quotas, for admission and for the controller of quota status.

The feed keeps them up to date. A namespace is counted when its account is first needed, and again when a quota of it is
created, deleted or gets another spec. The event loop counts small namespaces; counting a large one needs a thread:
`scan` there, then `install` in the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from actors.admission.plugins.quota.account import Account
from actors.admission.plugins.quota.amounts import texts_of
from actors.admission.plugins.quota.quotas import Charges, Quota, QuotaSet, parse_quota
from actors.admission.plugins.quota.usage import Demand, measures
from actors.kinds.features import RECOVER_EXPANSION
from actors.names import Names
from actors.store.document import decode
from actors.store.feed import Feed
from journal.log import Journal
from journal.records import Event
from journal.view import View

FEW: Final = 64  # objects that are parsed on the event loop: about two milliseconds

QuotaKey = tuple[str, str]  # namespace and name of a quota
Changed = Callable[[QuotaKey], None]


class QuotaAccounts:
    def __init__(
        self, names: Names, journal: Journal, feed: Feed, features: frozenset[str] = frozenset()
    ) -> None:
        self._journal, self._feed = journal, feed
        self._type_id = journal.type_id("resourcequotas")
        self.measures = measures(names, expansion_recovery=RECOVER_EXPANSION in features)
        self._quotas: dict[str, dict[str, Quota]] = {}
        self._sets: dict[str, QuotaSet] | None = None
        self._accounts: dict[str, Account] = {}
        self._reservations: dict[str, dict[object, Demand]] = {}
        self._listeners: list[Changed] = []
        self._charge: Callable[[QuotaKey, dict[str, str]], None] | None = None
        self._charges: dict[str, Callable[[], None]] = {}  # of each namespace with writes under way
        feed.follow(self._committed)

    def write_with(self, charge: Callable[[QuotaKey, dict[str, str]], None]) -> None:
        """Call `charge` with what a quota is used, right after writes that use it were submitted."""
        self._charge = charge

    def listen(self, changed: Changed) -> None:
        """Call `changed` for each quota whose usage or spec changes."""
        self._listeners.append(changed)

    def quotas_of(self, namespace: str) -> QuotaSet | None:
        """None if the namespace has no quotas. Not in a thread."""
        if self._sets is None:
            self._sets = self._read()
        return self._sets.get(namespace)

    def has_no_quotas(self, namespace: str) -> bool:
        """Whether a namespace has none; False if quotas were not read yet. Not in a thread."""
        return self._sets is not None and namespace not in self._sets

    def all_quotas(self) -> list[QuotaKey]:
        self.quotas_of("")
        return [(namespace, name) for namespace, quotas in self._quotas.items() for name in quotas]

    def account(self, namespace: str) -> Account | None:
        """None if it has to be counted in a thread first. The namespace must have quotas."""
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
        """Count a namespace. In a thread."""
        counted = Account(quotas)
        with self._journal.read() as view:
            counted.count(view)
        with self._journal.read() as view:
            self._follow(counted, view, view.head)
        return counted

    def install(self, counted: Account) -> None:
        """Use an account that was counted, unless the quotas have changed meanwhile or another one was quicker."""
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
                # A quota may have changed meanwhile: then the demand was reserved again, in the new account.
                released = charges if current is account else current.quotas.charges(demand)
                current.release(released)
                if not durable:  # a status may have been written with it
                    self._report(current, frozenset(index for index, usage in enumerate(released) if usage))

        return release

    def companion(self, namespace: str) -> Callable[[], None]:
        """Writes what the quotas of a namespace are used; the same for all writes that are under way there."""
        found = self._charges.get(namespace)
        if found is None:
            found = self._charges[namespace] = partial(self._write_used, namespace)
        return found

    def _write_used(self, namespace: str) -> None:
        """With what is reserved: the writes that the actor has just submitted."""
        account = self._accounts.get(namespace)
        if account is not None and self._charge is not None:
            for index, used in account.used_and_reserved():
                self._charge((namespace, account.quotas.quotas[index].name), texts_of(used))

    def end(self, account: Account, now: int) -> None:
        """Stop to count pods whose time is over."""
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
            for namespace, name, row in view.rows(self._type_id, None):
                self._quotas.setdefault(namespace, {})[name] = parse_quota(decode(row.body))
        return {namespace: self._set_of(namespace) for namespace in self._quotas}

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
        after = None if event.removed else parse_quota(decode(event.body))
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
