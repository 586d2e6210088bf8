"""`--feature-gates` on a running server: fields of features that are off are dropped or refused.

One server has all such features on, another has them off; stored fields stay when a feature is turned off.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rewound.actors.versions import features
from rewound.actors.versions.gates import gates_of
from tests.gateway.api import Api, served
from tests.gateway.shared_server import shared

LABELS = {"matchLabels": {"a": "b"}}
CONTAINER = {"name": "c", "image": "i"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": LABELS}
RETAIN = {"whenDeleted": "Delete", "whenScaled": "Retain"}
FAILURES = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}]}
CLAIM = {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}}
METRIC = {
    "type": "ContainerResource",
    "containerResource": {
        "name": "cpu",
        "container": "c",
        "target": {"type": "Utilization", "averageUtilization": 5},
    },
}

OBJECT_METRIC = {
    "type": "Object",
    "object": {
        "describedObject": {"kind": "Service", "name": "s"},
        "metric": {"name": "m"},
        "target": {"type": "Value", "value": "1"},
    },
}


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {"containers": [CONTAINER], **spec}}


def stateful_set(**spec: Any) -> dict[str, Any]:
    own = {"serviceName": "s", "selector": LABELS, "template": pod(), **spec}
    return {"metadata": {"name": "a"}, "spec": own}


def job(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"template": pod(restartPolicy="Never"), **spec}}


def autoscaler(**spec: Any) -> dict[str, Any]:
    target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
    return {"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target, **spec}}


def volume(**csi: Any) -> dict[str, Any]:
    source = {"driver": "d", "volumeHandle": "h", **csi}
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "csi": source}
    return {"metadata": {"name": "a"}, "spec": spec}


# feature: plural, document, path of its field, value without the feature
DROPPED: dict[str, tuple[str, dict[str, Any], tuple[Any, ...], Any]] = {
    features.USER_NAMESPACES: ("pods", pod(hostUsers=False), ("spec", "hostUsers"), None),
    features.PROC_MOUNT: (
        "pods",
        pod(containers=[{**CONTAINER, "securityContext": {"procMount": "Unmasked"}}]),
        ("spec", "containers", 0, "securityContext", "procMount"),
        "Default",
    ),
    features.SPREAD_INCLUSION: (
        "pods",
        pod(topologySpreadConstraints=[{**SPREAD, "nodeTaintsPolicy": "Honor"}]),
        ("spec", "topologySpreadConstraints", 0, "nodeTaintsPolicy"),
        None,
    ),
    features.MIN_DOMAINS: (
        "pods",
        pod(topologySpreadConstraints=[{**SPREAD, "minDomains": 2}]),
        ("spec", "topologySpreadConstraints", 0, "minDomains"),
        None,
    ),
    features.SPREAD_LABEL_KEYS: (
        "pods",
        pod(topologySpreadConstraints=[{**SPREAD, "matchLabelKeys": ["x"]}]),
        ("spec", "topologySpreadConstraints", 0, "matchLabelKeys"),
        None,
    ),
    features.AUTO_DELETE: (
        "statefulsets",
        stateful_set(persistentVolumeClaimRetentionPolicy=RETAIN),
        ("spec", "persistentVolumeClaimRetentionPolicy"),
        None,
    ),
    features.MAX_UNAVAILABLE: (
        "statefulsets",
        stateful_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}),
        ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable"),
        None,
    ),
    features.FAILURE_POLICY: (
        "jobs",
        job(podFailurePolicy=FAILURES),
        ("spec", "podFailurePolicy", "rules", 0, "action"),
        None,
    ),
    features.NODE_EXPAND_SECRET: (
        "persistentvolumes",
        volume(nodeExpandSecretRef={"name": "s", "namespace": "n"}),
        ("spec", "csi", "nodeExpandSecretRef"),
        None,
    ),
    features.SE_LINUX_MOUNT: (
        "csidrivers",
        {"metadata": {"name": "a"}, "spec": {"seLinuxMount": True}},
        ("spec", "seLinuxMount"),
        None,
    ),
}
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    features.SCALE_TO_ZERO: ("horizontalpodautoscalers", autoscaler(minReplicas=0, metrics=[OBJECT_METRIC])),
    features.CONTAINER_METRICS: ("horizontalpodautoscalers", autoscaler(metrics=[METRIC])),
    features.READ_WRITE_ONCE_POD: ("persistentvolumeclaims", {"metadata": {"name": "a"}, "spec": CLAIM}),
    features.EXPANDED_DNS: ("pods", pod(dnsConfig={"searches": [f"s{i}" for i in range(20)]})),
}


def at(document: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        if isinstance(document, dict) and part not in document:
            return None
        document = document[part]
    return document


async def create(api: Api, plural: str, body: dict[str, Any], code: int = 201) -> dict[str, Any]:
    response = await api.ask("POST", api.path(plural), body, dryRun="All")
    return response.expect(code)


async def test_fields_are_dropped_unless_their_feature_is_on() -> None:
    async with shared() as api:
        for plural, sent, path, instead in DROPPED.values():
            assert at(await create(api, plural, sent), path) == instead
    async with served(feature_gates="AllAlpha=true,AllBeta=true") as api:
        for plural, sent, path, _ in DROPPED.values():
            assert at(await create(api, plural, sent), path) == at(sent, path)


async def test_values_are_refused_unless_their_feature_is_on() -> None:
    async with shared() as api:
        for plural, sent in REFUSED.values():
            await create(api, plural, sent, 422)
    async with served(feature_gates=",".join(f"{name}=true" for name in REFUSED)) as api:
        for plural, sent in REFUSED.values():
            await create(api, plural, sent)


async def test_stored_field_stays_when_its_feature_is_turned_off(tmp_path: Path) -> None:
    async with served(tmp_path, feature_gates=f"{features.AUTO_DELETE}=true") as api:
        made = await api.create("statefulsets", DROPPED[features.AUTO_DELETE][1])
        await api.restart(feature_gates="")
        made["spec"]["replicas"] = 5
        kept = await api.replace("statefulsets", made)
        assert kept["spec"]["persistentVolumeClaimRetentionPolicy"] == RETAIN


def test_every_feature_is_tested() -> None:
    elsewhere = {
        features.RECOVER_EXPANSION,
        features.RETROACTIVE_CLASS,
        features.POLICY_STATUS,
        features.DISRUPTION_CONDITIONS,
        features.HONOURED_POLICY,
        features.OUT_OF_SERVICE,
    }  # these affect only updates, or only controllers
    off = {name for name, gate in gates_of("1.25").items() if not gate.on} & features.GATES
    assert DROPPED.keys() | REFUSED.keys() | elsewhere == off
