"""The secrets, config maps and claims of its namespace that a pod names, in containers, volumes and pull secrets.

Admission refuses pods by them, and the Node authorizer derives from them what a node may read. Empty names are left
out. Secrets that a pod reaches through a claim and its volume are in `volume_secrets`.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.kinds.core.pods.windows import containers_of
from actors.messages import Object


def secrets(spec: Object) -> Iterator[str]:
    return filter(None, _secrets(spec))


def config_maps(spec: Object) -> Iterator[str]:
    return filter(None, _config_maps(spec))


def claims(spec: Object) -> Iterator[str]:
    """The claims that volumes name, without those of ephemeral volumes."""
    for volume in spec.get("volumes", ()):
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"].get("claimName", "")


def claims_of_ephemeral_volumes(pod: str, spec: Object) -> Iterator[str]:
    """The names of the claims that a controller creates for the ephemeral volumes of a pod."""
    for volume in spec.get("volumes", ()):
        if "ephemeral" in volume:
            yield f"{pod}-{volume['name']}"


def variables_from_secrets(container: Object) -> Iterator[tuple[str, str]]:
    """Variables taken from secrets, with the names of the secrets."""
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
