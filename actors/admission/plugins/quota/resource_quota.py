"""ResourceQuota: refuses writes that would use more than a quota of their namespace allows.

It is the last plugin, so that it reserves nothing for a write that another one refuses. What it allows is reserved
until the write is durable or failed (`QuotaAccounts`). A namespace without quotas costs one lookup, unless
the configuration names resources that need a quota (`limited`).
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from actors.admission.plugin import Plugin, rule
from actors.admission.plugins.quota.account import Account, Exceeded
from actors.admission.plugins.quota.accounts import QuotaAccounts
from actors.admission.plugins.quota.amounts import Usage, increase, texts_of
from actors.admission.plugins.quota.limited import Limited, uncovered
from actors.admission.plugins.quota.quotas import Quota, QuotaSet
from actors.admission.plugins.quota.usage import (
    CLAIMS,
    PODS,
    REQUIRED_OF_CONTAINERS,
    SERVICES,
    Demand,
    missing_of_containers,
    number_measure,
)
from actors.admission.request import CREATE, UPDATE, AdmissionRequest
from actors.errors import Forbidden
from actors.time_limit import NeedsThread


class ResourceQuota(Plugin):
    name = "ResourceQuota"
    thread_safe = True
    # An update of other kinds never uses more: pods keep their containers, and of the rest only the number counts.
    validates = (rule(CREATE, namespaced_only=True), rule(UPDATE, of=(SERVICES, CLAIMS)))

    def __init__(self, accounts: QuotaAccounts, limited: tuple[Limited, ...] = ()) -> None:
        self._accounts = accounts
        self._limited = limited
        self._measures = {one.resource: one for one in accounts.measures}

    def admits_all(self, operation: str) -> Callable[[str], bool] | None:
        return None if self._limited else self._accounts.has_no_quotas

    def validate(self, request: AdmissionRequest) -> None:
        if request.in_thread:
            quotas = trio.from_thread.run_sync(self._accounts.quotas_of, request.namespace)
        else:
            quotas = self._accounts.quotas_of(request.namespace)
        if quotas is not None or self._limited:
            self._check(request, quotas)

    def _check(self, request: AdmissionRequest, quotas: QuotaSet | None) -> None:
        new, resource = request.object, request.definition.resource
        assert new is not None
        counted = quotas is not None and quotas.counts(resource)
        if not counted and not self._limited:
            return
        if resource.plural == "events" or request.definition.storage.ephemeral:
            return  # they are never counted
        measure = self._measures.get(resource)
        if measure is None:
            measure = self._measures[resource] = number_measure(resource)
        demand, own = measure.demand(new), quotas.quotas if quotas is not None else ()
        if resource == PODS:
            _check_containers(request, own, demand)
        more = demand.usage
        if request.old is not None:
            more = increase(more, measure.demand(request.old).usage)
        if not more:
            return
        if self._limited and (why := uncovered(self._limited, resource, demand, own, measure.covers)):
            raise _refusal(request, why)
        if request.old is not None:
            demand = Demand(more, demand.pod)
        if quotas is None or not counted:
            return
        if request.in_thread:
            self._reserve_in_thread(request, quotas, demand)
        elif not self._reserve(request, demand):
            raise NeedsThread

    def _reserve_in_thread(self, request: AdmissionRequest, quotas: QuotaSet, demand: Demand) -> None:
        while not trio.from_thread.run_sync(self._reserve, request, demand):
            counted = self._accounts.scan(quotas)
            trio.from_thread.run_sync(self._accounts.install, counted)
            current = trio.from_thread.run_sync(self._accounts.quotas_of, request.namespace)
            if current is None:
                return
            quotas = current

    def _reserve(self, request: AdmissionRequest, demand: Demand) -> bool:
        """Reserve the demand or refuse the write; False if the namespace must be counted first."""
        if self._accounts.quotas_of(request.namespace) is None:
            return True  # the last quota was deleted while a thread worked
        account = self._accounts.account(request.namespace)
        if account is None:
            return False
        self._reserve_from(account, request, demand)
        return True

    def _reserve_from(self, account: Account, request: AdmissionRequest, demand: Demand) -> None:
        assert request.context is not None
        self._accounts.end(account, request.context.time)
        charges = account.quotas.charges(demand)
        if (exceeded := account.exceeded(charges)) is not None:
            raise _refusal(request, _message(exceeded))
        if not request.dry_run:
            request.callbacks += (self._accounts.reserve(account, demand, charges),)
            request.companion = self._accounts.companion(request.namespace)


def _check_containers(request: AdmissionRequest, quotas: tuple[Quota, ...], demand: Demand) -> None:
    """Refuse a pod with a container that does not say how much CPU or memory it uses, if a quota limits that."""
    assert request.object is not None
    for quota in quotas:
        required = REQUIRED_OF_CONTAINERS & quota.hard.keys()
        if not required or not quota.selects(demand.pod):
            continue
        if missing := missing_of_containers(request.object["spec"], required):
            raise _refusal(request, f"failed quota: {quota.name}: must specify {missing}")


def _refusal(request: AdmissionRequest, why: str) -> Forbidden:
    assert request.object is not None
    name = request.name or request.object["metadata"].get("name", "")
    return Forbidden(request.definition.resource, name, why)


def _message(exceeded: Exceeded) -> str:
    return (
        f"exceeded quota: {exceeded.quota.name}, requested: {_listed(exceeded.requested)}, "
        f"used: {_listed(exceeded.used)}, limited: {_listed(exceeded.limited)}"
    )


def _listed(usage: Usage) -> str:
    return ",".join(f"{name}={text}" for name, text in texts_of(usage).items())
