"""Resources that need a quota: the configuration of ResourceQuota, and what of a demand no quota covers.

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
from dataclasses import dataclass

from actors.admission.configuration import PluginConfiguration
from actors.admission.plugins.quota.quotas import Quota
from actors.admission.plugins.quota.scopes import Requirement
from actors.admission.plugins.quota.usage import Demand
from actors.errors import Resource
from actors.kinds.core.resource_quota import SCOPES
from actors.names import Names


@dataclass(frozen=True, slots=True)
class Limited:
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
