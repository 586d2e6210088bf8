"""The cost of validation grows with the size of a body, not with its square.

Each test is about lists with which one request once blocked all others for seconds: a rule compared every element
with every other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rewound.actors.golang import format as go_format
from rewound.actors.golang import quoting
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration import meta
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.names import CLUSTER
from rewound.actors.versions.features import GATES, Release
from tests.actors.kinds.definitions import Definitions, create, replace
from tests.actors.kinds.operations import counted, excess_of, operations

ALL_FEATURES = Release(features=GATES)
CATALOG = built_in(CLUSTER, ALL_FEATURES)
DEFINITIONS = Definitions(CATALOG)
LINEAR = 1  # see `excess`; the rest is sorting, and costs of errors that only long lists have

POD = {"name": "c", "image": "i"}
ANY = {"rule": "RunAsAny"}
POLICY = {"seLinux": ANY, "runAsUser": ANY, "supplementalGroups": ANY, "fsGroup": ANY}
HOOK = {"name": "a.b.c", "clientConfig": {"url": "https://a"}, "sideEffects": "None"}


@pytest.fixture(autouse=True)
def short_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Formatting a value costs up to a bound, which small documents would not reach."""
    for module in (quoting, go_format):
        monkeypatch.setattr(module, "LONGEST", 16)


def names(count: int) -> list[str]:
    return [f"a{index}" for index in range(count)]


def cidrs(count: int) -> list[str]:
    return [f"10.{index // 250}.{index % 250}.0/24" for index in range(count)]


Document = Callable[[int], dict[str, Any]]

CREATED: dict[str, tuple[str, Document]] = {
    "podCIDRs": ("nodes", lambda n: {"spec": {"podCIDRs": cidrs(n)}}),
    "invalid podCIDRs": ("nodes", lambda n: {"spec": {"podCIDRs": names(n)}}),
    "scopes": ("resourcequotas", lambda n: {"spec": {"scopes": names(n)}}),
    "scopes and resources": (
        "resourcequotas",
        lambda n: {"spec": {"scopes": ["Terminating"] * n, "hard": {f"a.b/{one}": "1" for one in names(n)}}},
    ),
    "ipFamilies": ("services", lambda n: {"spec": {"ipFamilies": names(n)}}),
    "topologyKeys": (
        "csinodes",
        lambda n: {"spec": {"drivers": [{"name": "d", "nodeID": "n", "topologyKeys": names(n)}]}},
    ),
    "admissionReviewVersions": (
        "validatingwebhookconfigurations",
        lambda n: {"webhooks": [{**HOOK, "admissionReviewVersions": names(n)}]},
    ),
    "allowedRuntimeClassNames": (
        "podsecuritypolicies",
        lambda n: {"spec": {**POLICY, "runtimeClass": {"allowedRuntimeClassNames": names(n)}}},
    ),
    "capabilities": (
        "podsecuritypolicies",
        lambda n: {
            "spec": {
                **POLICY,
                "allowedCapabilities": names(n),
                "requiredDropCapabilities": [f"b{one}" for one in names(n)],
            }
        },
    ),
    "sysctls": (
        "podsecuritypolicies",
        lambda n: {
            "spec": {
                **POLICY,
                "allowedUnsafeSysctls": [f"{one}.*" for one in names(n)],
                "forbiddenSysctls": [f"b.{one}.*" for one in names(n)],
            }
        },
    ),
    "topologySpreadConstraints": (
        "pods",
        lambda n: {
            "spec": {
                "containers": [POD],
                "topologySpreadConstraints": [
                    {"topologyKey": one, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
                    for one in names(n)
                ],
            }
        },
    ),
    "mounts and devices": (
        "pods",
        lambda n: {
            "spec": {
                "containers": [
                    {
                        **POD,
                        "volumeMounts": [{"name": one, "mountPath": f"/{one}"} for one in names(n)],
                        "volumeDevices": [{"name": f"d{one}", "devicePath": f"/d/{one}"} for one in names(n)],
                    }
                ]
            }
        },
    ),
    "AppArmor annotations and containers": (
        "pods",
        lambda n: {
            "metadata": {
                "annotations": {
                    f"container.apparmor.security.beta.cluster.io/{one}": "unconfined" for one in names(n)
                }
            },
            "spec": {"containers": [{**POD, "name": f"c{one}"} for one in names(n)]},
        },
    ),
    "allowedTopologies": (
        "storageclasses",
        lambda n: {
            "provisioner": "p",
            "allowedTopologies": [
                {"matchLabelExpressions": [{"key": "k", "values": [one]}]} for one in names(n)
            ],
        },
    ),
    "values of allowedTopologies": (
        "storageclasses",
        lambda n: {
            "provisioner": "p",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "k", "values": names(n)}]}],
        },
    ),
    "usages": ("certificatesigningrequests", lambda n: {"spec": {"usages": names(n)}}),
    "exit codes and containers": (
        "jobs",
        lambda n: {
            "spec": {
                "podFailurePolicy": {
                    "rules": [
                        {
                            "action": "Ignore",
                            "onExitCodes": {"containerName": "z", "operator": "In", "values": [*range(2, 4)]},
                        }
                    ]
                    * n
                },
                "template": {"spec": {"containers": [{**POD, "name": one} for one in names(n)]}},
            }
        },
    ),
    "exit codes": (
        "jobs",
        lambda n: {
            "spec": {
                "podFailurePolicy": {
                    "rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [*range(n)]}}]
                },
                "template": {"spec": {"containers": [POD]}},
            }
        },
    ),
}


def decoded(definition: Definition, document: dict[str, Any]) -> Object:
    """The object as decoded, in storage form, with values whose comparisons count."""
    document["metadata"] = {"name": "a", **document.get("metadata", {})}
    found = definition.schema.decode_object(document).object
    found["metadata"].pop("resourceVersion", None)
    conversion = definition.storage.conversion
    return counted(found if conversion is None else conversion.to_storage(found))  # type: ignore[no-any-return]


def cost(work: Callable[[], object]) -> int:
    meta._known_labels.clear()
    return operations(work)


@pytest.mark.parametrize("case", CREATED)
def test_known_rules_compare_no_element_with_all_others(case: str) -> None:
    plural, document = CREATED[case]
    definition = DEFINITIONS[plural]

    def cost_of(count: int) -> int:
        sent = decoded(definition, document(count))
        return cost(lambda: create(definition, sent))

    cost_of(1)  # fills caches
    assert excess_of(cost_of, 50) < LINEAR


STATUS: dict[str, tuple[str, str, Document]] = {
    "tolerations": (
        "pods",
        "",
        lambda n: {
            "spec": {
                "containers": [POD],
                "tolerations": [{"key": one, "operator": "Exists"} for one in names(n)],
            }
        },
    ),
    "drivers": (
        "csinodes",
        "",
        lambda n: {"spec": {"drivers": [{"name": one, "nodeID": "n"} for one in names(n)]}},
    ),
    "addresses of a node": (
        "nodes",
        "status",
        lambda n: {"status": {"addresses": [{"type": "InternalIP", "address": one} for one in names(n)]}},
    ),
    "addresses of a pod": (
        "pods",
        "status",
        lambda n: {
            "spec": {"containers": [POD]},
            "status": {"podIPs": [{"ip": one.removesuffix("/24")} for one in cidrs(n)]},
        },
    ),
    "terminated containers": (
        "pods",
        "status",
        lambda n: {
            "spec": {"containers": [POD], "restartPolicy": "Never"},
            "status": {
                "containerStatuses": [
                    {"name": one, "ready": False, "restartCount": 0, "state": {"terminated": {"exitCode": 0}}}
                    for one in names(n)
                ]
            },
        },
    ),
    "conditions of a signing request": (
        "certificatesigningrequests",
        "status",
        lambda n: {"status": {"conditions": [{"type": one, "status": "True"} for one in names(n)]}},
    ),
}


@pytest.mark.parametrize("case", STATUS)
def test_known_rules_of_updates_compare_no_element_with_all_others(case: str) -> None:
    plural, subresource, document = STATUS[case]
    definition = DEFINITIONS[plural]

    def cost_of(count: int) -> int:
        old, new = (decoded(definition, document(count)) for _ in range(2))
        old["metadata"] |= {"uid": "u-1", "creationTimestamp": "2020-01-01T00:00:00Z", "namespace": "ns"}
        return cost(lambda: replace(definition, new, old, subresource))

    cost_of(1)  # fills caches
    assert excess_of(cost_of, 50) < LINEAR


CELLS: dict[str, tuple[str, Document]] = {
    "ports and addresses": (
        "endpoints",
        lambda n: {
            "subsets": [
                {
                    "addresses": [{"ip": one.removesuffix("/24")} for one in cidrs(n)],
                    "ports": [{"name": one, "port": 1} for one in names(n)],
                }
            ]
        },
    ),
    "gates and conditions": (
        "pods",
        lambda n: {
            "spec": {"containers": [POD], "readinessGates": [{"conditionType": one} for one in names(n)]},
            "status": {"conditions": [{"type": f"b{one}", "status": "True"} for one in names(n)]},
        },
    ),
}


@pytest.mark.parametrize("case", CELLS)
def test_known_cells_combine_no_element_with_all_others(case: str) -> None:
    plural, document = CELLS[case]
    definition = DEFINITIONS[plural]

    def cost_of(count: int) -> int:
        stored = decoded(definition, document(count))
        return cost(lambda: print_row(definition, stored))

    assert excess_of(cost_of, 50) < LINEAR


def print_row(definition: Definition, stored: Object) -> None:
    for column in definition.table.columns:
        column.cell(stored, 10**15)


def test_large_metadata_is_validated_once_per_update() -> None:
    """Each step of an update validates metadata; only one of them reads a map of a hundred thousand labels."""
    definition = DEFINITIONS["configmaps"]
    document = {"metadata": {"labels": {f"example.com/k{index}": "v" for index in range(2000)}}}
    stored, causes = create(definition, decoded(definition, document))
    assert causes == []
    new = decoded(definition, document)
    assert cost(lambda: replace(definition, new, stored)) < 2 * cost(lambda: create(definition, counted(new)))


def test_annotations_beyond_their_total_size_are_not_read() -> None:
    definition = DEFINITIONS["configmaps"]

    def cost_of(count: int) -> int:
        annotations = {f"example.com/k{index}": "v" * 200 for index in range(count)}
        sent = decoded(definition, {"metadata": {"annotations": annotations}})
        return cost(lambda: create(definition, sent))

    assert cost_of(4000) < 1.1 * cost_of(2000)
