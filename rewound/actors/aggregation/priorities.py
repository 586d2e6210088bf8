"""The priorities of group versions in discovery, as the APIServices of Kubernetes have them.

Higher priorities come first. An APIService has the priority of its group and of its version; a group version without
an APIService has the default here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import DEVICES_BEFORE_FLOWS

MANAGED_ON_START: Final = "onstart"  # created at startup, for built-in groups
MANAGED: Final = "true"  # exists as long as the group version has a custom kind


class Priority(NamedTuple):
    group: int
    version: int


CUSTOM: Final = Priority(1000, 100)  # groups of custom resources

_Versions = dict[str, int]
# Groups whose name is the same in both dialects, then those in the domain of the dialect.
_PLAIN: Final[dict[str, tuple[int, _Versions]]] = {
    "": (18000, {"v1": 1}),
    "apps": (17800, {"v1": 15}),
    "autoscaling": (17500, {"v1": 15, "v2": 30, "v2beta1": 9, "v2beta2": 1}),
    "batch": (17400, {"v1": 15, "v1beta1": 9}),
    "policy": (17100, {"v1": 15, "v1beta1": 9}),
}
_IN_DOMAIN: Final[dict[str, tuple[int, _Versions]]] = {
    "events": (17750, {"v1": 15, "v1beta1": 5}),
    "authentication": (17700, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "authorization": (17600, {"v1": 15}),
    "certificates": (17300, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "networking": (17200, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "rbac.authorization": (17000, {"v1": 15}),
    "storage": (16800, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "apiextensions": (16700, {"v1": 15}),
    "admissionregistration": (16700, {"v1": 15, "v1beta1": 12, "v1alpha1": 9}),
    "scheduling": (16600, {"v1": 15, "v1alpha2": 2, "v1alpha1": 1}),
    "coordination": (16500, {"v1": 15, "v1beta1": 13, "v1alpha2": 12, "v1alpha1": 9}),
    "node": (16300, {"v1": 15, "v1beta1": 9, "v1alpha1": 1}),
    "discovery": (16200, {"v1": 15, "v1beta1": 12}),
    "resource": (16200, {"v1": 21, "v1beta2": 15, "v1beta1": 9, "v1alpha3": 1}),
    "flowcontrol.apiserver": (16100, {"v1": 21, "v1beta3": 18, "v1beta2": 15, "v1beta1": 12, "v1alpha1": 9}),
    "internal.apiserver": (16000, {"v1alpha1": 9}),
    "storagemigration": (15800, {"v1beta1": 9, "v1alpha1": 9}),
}
_ALPHA_DEVICES: Final[tuple[int, _Versions]] = (15900, {"v1alpha3": 9, "v1alpha2": 9, "v1alpha1": 9})


@lru_cache(maxsize=24)
def built_in_priorities(names: Names, features: frozenset[str]) -> dict[tuple[str, str], Priority]:
    """Return priorities by group and version. The group of APIServices has none: it is always first, without an
    APIService.
    """
    in_domain = _IN_DOMAIN if DEVICES_BEFORE_FLOWS in features else {**_IN_DOMAIN, "resource": _ALPHA_DEVICES}
    groups = {**_PLAIN, **{names.group(prefix): found for prefix, found in in_domain.items()}}
    return {
        (group, version): Priority(priority, number)
        for group, (priority, versions) in groups.items()
        for version, number in versions.items()
    }


def api_services_group(names: Names) -> str:
    return names.group("apiregistration")


def api_services_type(names: Names) -> str:
    return f"apiservices.{api_services_group(names)}"


def automanaged_label(names: Names) -> str:
    return names.key("automanaged", "kube-aggregator")


def local_api_service(names: Names, features: frozenset[str], group: str, version: str) -> Object:
    """Return the APIService of a group version that this server serves itself."""
    priority = built_in_priorities(names, features).get((group, version))
    managed = MANAGED if priority is None else MANAGED_ON_START
    priority = priority or CUSTOM
    return {
        "metadata": {"name": f"{version}.{group}", "labels": {automanaged_label(names): managed}},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": priority.group,
            "versionPriority": priority.version,
        },
    }
