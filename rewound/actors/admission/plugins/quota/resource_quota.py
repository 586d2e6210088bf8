"""ResourceQuota: rejects writes that would use more than a quota of their namespace allows.

It is the last plugin, so that it reserves nothing for a write that another one rejects. An allowed write is reserved
until the write is durable or failed (`QuotaAccounts`). A namespace without quotas costs one lookup, unless the
configuration names resources that need a quota:

    apiVersion: apiserver.config.cluster.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - resource: persistentvolumeclaims
      matchContains: [".storageclass.storage.cluster.io/requests.storage"]
    - resource: pods
      matchScopes: [{scopeName: PriorityClass, operator: In, values: [critical]}]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import trio

from rewound.actors.admission.configuration import PluginConfiguration
from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.plugins.quota.accounts import Account, Exceeded, Quota, QuotaAccounts, QuotaSet
from rewound.actors.admission.plugins.quota.usage import (
    CLAIMS,
    PODS,
    REQUIRED_OF_CONTAINERS,
    SERVICES,
    Demand,
    Requirement,
    Usage,
    increase,
    missing_of_containers,
    number_measure,
    texts_of,
)
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from rewound.actors.kinds.core.resource_quota import SCOPES
from rewound.actors.names import Names
from rewound.actors.runtime.time_limit import NeedsThread


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
        """Reserve the demand or reject the write; False if the namespace must be counted first."""
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
            request.counted_at = self._accounts.version


def _check_containers(request: AdmissionRequest, quotas: tuple[Quota, ...], demand: Demand) -> None:
    """Reject a pod with a container that does not specify CPU or memory, if a quota limits that."""
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


class Limited(msgspec.Struct, frozen=True):
    resource: Resource
    contains: tuple[str, ...]  # parts of names that must be in a quota if an object uses them
    scopes: tuple[Requirement, ...]  # a pod that one of these selects needs a quota with that scope


def uncovered(
    limited: Iterable[Limited],
    resource: Resource,
    demand: Demand,
    quotas: Iterable[Quota],
    covers: Callable[[str], bool],
) -> str:
    """Why the demand needs another quota, "" if it does not; `covers` are the names of the resource's kind."""
    names = {
        name
        for one in limited
        if one.resource == resource
        for name, amount in demand.usage.items()
        if amount[0] > 0 and any(part in name for part in one.contains)
    }
    for quota in quotas:
        if quota.selects(demand.pod):
            names -= {name for name in quota.hard if covers(name)}
    if names:
        return f"insufficient quota to consume: {','.join(sorted(names))}"
    pod = demand.pod
    if pod is None:
        return ""
    needed = [scope for one in limited for scope in one.scopes if scope.selects(pod)]
    found = {scope.scope for quota in quotas for scope in quota.scopes if scope.selects(pod)}
    if missing := [scope for scope in needed if scope.scope not in found]:
        return f"insufficient quota to match these scopes: [{' '.join(map(_text, missing))}]"
    return ""


def _text(scope: Requirement) -> str:
    return f"{{{scope.scope} {scope.operator} [{' '.join(scope.values)}]}}"


def parse_limited(names: Names, given: PluginConfiguration | None) -> tuple[Limited, ...]:
    if given is None:
        return ()
    older = names.group("resourcequota.admission")
    given.check_type(
        (f"{names.group('apiserver.config')}/v1", "ResourceQuotaConfiguration"),
        (f"{older}/v1beta1", "Configuration"),
        (f"{older}/v1alpha1", "Configuration"),
    )
    given.check_fields("limitedResources")
    items = given.document.get("limitedResources") or []
    if not isinstance(items, list):
        raise given.error("limitedResources", "must be a list")
    return tuple(_parse_item(given, one, f"limitedResources[{index}]") for index, one in enumerate(items))


def _parse_item(given: PluginConfiguration, one: object, field: str) -> Limited:
    if not isinstance(one, dict) or not isinstance(one.get("resource"), str) or not one["resource"]:
        raise given.error(f"{field}.resource", "is required")
    group, scopes = one.get("apiGroup") or "", one.get("matchScopes") or []
    if not isinstance(group, str):
        raise given.error(f"{field}.apiGroup", "must be a string")
    if not isinstance(scopes, list):
        raise given.error(f"{field}.matchScopes", "must be a list")
    return Limited(
        Resource(group, one["resource"]),
        _strings(given, one.get("matchContains"), f"{field}.matchContains"),
        tuple(
            _parse_scope(given, scope, f"{field}.matchScopes[{index}]") for index, scope in enumerate(scopes)
        ),
    )


def _parse_scope(given: PluginConfiguration, one: object, field: str) -> Requirement:
    if not isinstance(one, dict) or one.get("scopeName") not in SCOPES:
        raise given.error(f"{field}.scopeName", f"must be one of {', '.join(SCOPES)}")
    operators = ("In", "NotIn", "Exists", "DoesNotExist")
    if one.get("operator") not in operators:
        raise given.error(f"{field}.operator", f"must be one of {', '.join(operators)}")
    return Requirement(
        one["scopeName"], one["operator"], _strings(given, one.get("values"), f"{field}.values")
    )


def _strings(given: PluginConfiguration, values: object, field: str) -> tuple[str, ...]:
    if values is None:
        return ()
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise given.error(field, "must be a list of strings")
    return tuple(values)
