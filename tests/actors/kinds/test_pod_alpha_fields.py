"""Pod: fields of features that are off are dropped, unless they are stored already."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.core.pod import define
from rewound.actors.kinds.core.pod_template import without_disabled_fields
from rewound.actors.names import CLUSTER
from tests.actors.kinds.definitions import Definitions, create
from tests.actors.kinds.pods import CONTAINER, pod
from tests.cases import cases

SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
ALL = frozenset(
    (
        *("UserNamespacesStatelessPodsSupport", "ProcMountType", "MatchLabelKeysInPodTopologySpread"),
        *("NodeInclusionPolicyInPodTopologySpread", "ExpandedDNSConfig", "MinDomainsInPodTopologySpread"),
    )
)


def alpha(kinds: Definitions) -> dict[str, Any]:
    spread = {**SPREAD, "minDomains": 2, "nodeTaintsPolicy": "Honor", "nodeAffinityPolicy": "Ignore"}
    spread["matchLabelKeys"] = ["a"]
    container = {**CONTAINER, "securityContext": {"procMount": "Unmasked"}}
    spec = {"hostUsers": False, "topologySpreadConstraints": [spread], "containers": [container]}
    decoded: dict[str, Any] = kinds.decode("pods", pod(**spec))
    return decoded


def test_create_drops_fields_of_disabled_features(kinds: Definitions) -> None:
    new, _ = create(kinds["pods"], alpha(kinds))
    assert "hostUsers" not in new["spec"]
    assert new["spec"]["topologySpreadConstraints"] == [SPREAD]
    assert new["spec"]["containers"][0]["securityContext"] == {"procMount": "Default"}


def test_fields_of_disabled_features_stay_if_the_old_object_has_them(kinds: Definitions) -> None:
    new, old = alpha(kinds)["spec"], alpha(kinds)["spec"]
    assert without_disabled_fields(new, old, frozenset()) == old


def test_fields_of_enabled_features_are_kept(kinds: Definitions) -> None:
    new = alpha(kinds)
    assert without_disabled_fields(new["spec"], None, ALL) == alpha(kinds)["spec"]


def causes_with_features(kinds: Definitions, **spec: Any) -> list[tuple[str, str]]:
    return create(define(CLUSTER, ALL), kinds.decode("pods", pod(**spec)))[1]


@cases(
    ("spec", "causes"),
    [
        ({"hostUsers": False, "volumes": [{"name": "v", "configMap": {"name": "m"}}]}, []),
        (
            {"hostUsers": False, "volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
            [
                (
                    "spec.volumes[0]",
                    "Forbidden: volume type not supported when `pod.Spec.HostUsers` is false",
                )
            ],
        ),
        (
            {"hostUsers": False, "hostNetwork": True, "hostPID": True, "hostIPC": True},
            [
                (f"spec.{part}", "Forbidden: when `pod.Spec.HostUsers` is false")
                for part in ("hostNetwork", "HostPID", "HostIPC")
            ],
        ),
        ({"hostUsers": True, "hostNetwork": True}, []),
        ({"topologySpreadConstraints": [{**SPREAD, "minDomains": 1}]}, []),
        (
            {"topologySpreadConstraints": [{**SPREAD, "minDomains": 0}]},
            [
                (
                    "spec.topologySpreadConstraints[0].minDomains",
                    "Invalid value: 0: must be greater than zero",
                )
            ],
        ),
        (
            {
                "topologySpreadConstraints": [
                    {**SPREAD, "minDomains": 1, "whenUnsatisfiable": "ScheduleAnyway"}
                ]
            },
            [
                (
                    "spec.topologySpreadConstraints[0].minDomains",
                    "Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, "
                    "not ScheduleAnyway",
                )
            ],
        ),
        (
            {"topologySpreadConstraints": [{**SPREAD, "nodeTaintsPolicy": "x"}]},
            [
                (
                    "spec.topologySpreadConstraints[0].nodeTaintsPolicy",
                    'Unsupported value: "x": supported values: "Honor", "Ignore"',
                )
            ],
        ),
        (
            {
                "topologySpreadConstraints": [
                    {**SPREAD, "matchLabelKeys": ["a"], "labelSelector": {"matchLabels": {"a": "b"}}}
                ]
            },
            [
                (
                    "spec.topologySpreadConstraints[0].matchLabelKeys[0]",
                    'Invalid value: "a": exists in both matchLabelKeys and labelSelector',
                )
            ],
        ),
        (
            {"containers": [{**CONTAINER, "securityContext": {"procMount": "x"}}]},
            [
                (
                    "spec.containers[0].securityContext.procMount",
                    'Unsupported value: "x": supported values: "Default", "Unmasked"',
                )
            ],
        ),
        ({"dnsConfig": {"searches": ["a"] * 32}}, []),
    ],
)
def test_fields_of_enabled_features_are_validated(
    kinds: Definitions, spec: Any, causes: list[tuple[str, str]]
) -> None:
    assert causes_with_features(kinds, **spec) == causes
