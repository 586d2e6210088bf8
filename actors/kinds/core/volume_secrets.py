"""The secrets that a node needs in order to mount a persistent volume.

Those that only controllers use (to attach or expand a CSI volume) are not among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from actors.messages import Object

# Sources whose secret is in the namespace of the volume's claim if the source names none.
_WITH_SECRET: Final = ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
_IN_NAMESPACE_OF_CLAIM: Final = frozenset({"cephfs", "flexVolume", "iscsi", "rbd", "scaleIO"})
_OF_CSI_ON_NODES: Final = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


def secrets_for_nodes(spec: Object) -> Iterator[tuple[str, str]]:
    """Namespaces and names; the volume is bound to a claim."""
    claim_namespace: str = spec["claimRef"].get("namespace", "")
    for namespace, name in _references(spec, claim_namespace):
        if name:
            yield namespace, name


def _references(spec: Object, claim_namespace: str) -> Iterator[tuple[str, str]]:
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
