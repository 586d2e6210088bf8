"""The secrets, config maps and claims that pods and persistent volumes refer to.

For a pod, those of its namespace that it names in containers, volumes and pull secrets: admission refuses pods by
them, and the Node authorizer derives from them what a node may read. Empty names are left out. For a persistent
volume, the secrets that a node needs to mount it, without those that only controllers use (to attach or expand a CSI
volume).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rewound.actors.kinds.core.security_context import containers_of
from rewound.actors.messages import Object

# Sources whose secret is in the namespace of the volume's claim unless the source names one.
_WITH_SECRET: Final = ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
_IN_NAMESPACE_OF_CLAIM: Final = frozenset({"cephfs", "flexVolume", "iscsi", "rbd", "scaleIO"})
_OF_CSI_ON_NODES: Final = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


def secrets_of_volume(spec: Object) -> Iterator[tuple[str, str]]:
    """Return namespaces and names; the volume is bound to a claim."""
    claim_namespace: str = spec["claimRef"].get("namespace", "")
    for namespace, name in _secret_references(spec, claim_namespace):
        if name:
            yield namespace, name


def _secret_references(spec: Object, claim_namespace: str) -> Iterator[tuple[str, str]]:
    if "azureFile" in spec:
        source = spec["azureFile"]
        yield source.get("secretNamespace") or claim_namespace, source.get("secretName", "")
    for kind in _WITH_SECRET:
        reference = spec.get(kind, {}).get("secretRef")
        if reference is not None:
            default = claim_namespace if kind in _IN_NAMESPACE_OF_CLAIM else ""
            yield reference.get("namespace") or default, reference.get("name", "")
    for part in _OF_CSI_ON_NODES:
        reference = spec.get("csi", {}).get(part)
        if reference is not None:
            yield reference.get("namespace", ""), reference.get("name", "")


def secrets_of_pod(spec: Object) -> Iterator[str]:
    return filter(None, _secrets(spec))


def config_maps_of_pod(spec: Object) -> Iterator[str]:
    return filter(None, _config_maps(spec))


def claims_of_pod(spec: Object) -> Iterator[str]:
    """Return the claims that volumes name, without those of ephemeral volumes."""
    for volume in spec.get("volumes", ()):
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"].get("claimName", "")


def claims_of_ephemeral_volumes(pod: str, spec: Object) -> Iterator[str]:
    """Return the names of the claims that a controller creates for the ephemeral volumes of a pod."""
    for volume in spec.get("volumes", ()):
        if "ephemeral" in volume:
            yield f"{pod}-{volume['name']}"


def variables_from_secrets(container: Object) -> Iterator[tuple[str, str]]:
    """Return the variables taken from secrets, with the names of the secrets."""
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("secretKeyRef")
        if reference is not None:
            yield variable["name"], reference.get("name", "")


def projected_sources(volume: Object) -> list[Object]:
    return volume.get("projected", {}).get("sources") or []


def _secrets(spec: Object) -> Iterator[str]:
    for reference in spec.get("imagePullSecrets", ()):
        yield reference.get("name", "")
    for container, _ in containers_of(spec, ""):
        for source in container.get("envFrom", ()):
            if "secretRef" in source:
                yield source["secretRef"].get("name", "")
        for _, name in variables_from_secrets(container):
            yield name
    for volume in spec.get("volumes", ()):
        if "secret" in volume:
            yield volume["secret"].get("secretName", "")
        for part in (*volume.values(), *projected_sources(volume)):
            yield from _secrets_of_source(part)


def _secrets_of_source(source: object) -> Iterator[str]:
    if not isinstance(source, dict):
        return
    for part in ("secretRef", "nodePublishSecretRef", "secret"):
        if source.get(part):
            yield source[part].get("name", "")
    if "shareName" in source:
        yield source.get("secretName", "")


def _config_maps(spec: Object) -> Iterator[str]:
    for container, _ in containers_of(spec, ""):
        for source in container.get("envFrom", ()):
            if "configMapRef" in source:
                yield source["configMapRef"].get("name", "")
        for variable in container.get("env", ()):
            reference = variable.get("valueFrom", {}).get("configMapKeyRef")
            if reference is not None:
                yield reference.get("name", "")
    for volume in spec.get("volumes", ()):
        for source in (volume, *projected_sources(volume)):
            if source.get("configMap"):
                yield source["configMap"].get("name", "")
