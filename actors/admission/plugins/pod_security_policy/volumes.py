"""The rules of a policy for volumes: their types, paths of the host, and drivers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from actors.admission.plugins.pod_security_policy.policy import Policy
from actors.kinds.validation.field_errors import FieldErrors, invalid
from actors.messages import Object
from actors.names import Names

Containers = Sequence[tuple[str, Object]]
# A policy lists the drivers; how messages name the driver of a volume.
DRIVERS: Final = {
    "flexVolume": ("allowedFlexVolumes", "driver", "driver", "Flexvolume driver is not allowed to be used"),
    "csi": ("allowedCSIDrivers", "name", "csi.driver", "Inline CSI driver is not allowed to be used"),
}


def check_volumes(
    errors: FieldErrors, names: Names, policy: Policy, spec: Object, containers: Containers
) -> None:
    allowed = policy.spec.get("volumes") or ()
    for index, volume in enumerate(spec.get("volumes") or ()):
        field = f"spec.volumes[{index}]"
        source = next((one for one in volume if one != "name"), "")
        if "*" not in allowed and source not in allowed and not _is_token(names, allowed, volume):
            errors.add(invalid(field, source, f"{source} volumes are not allowed to be used"))
        elif source == "hostPath":
            _check_host_path(errors, policy, volume, field, containers)
        elif source in DRIVERS:
            _check_driver(errors, policy, source, volume, field)


def _is_token(names: Names, allowed: Sequence[str], volume: Object) -> bool:
    """The volume with the token of the service account is as good as the secret that it replaced."""
    projected = volume.get("projected")
    if "secret" not in allowed or projected is None:
        return False
    return all(_is_token_source(names, one) for one in projected.get("sources") or ())


def _is_token_source(names: Names, source: Object) -> bool:
    token, config_map, downward = (
        source.get(one) for one in ("serviceAccountToken", "configMap", "downwardAPI")
    )
    if token is None and config_map is None and downward is None:
        return False
    if token is not None and (token.get("path") != "token" or token.get("audience")):
        return False
    if config_map is not None and config_map.get("name") != names.root_certificate:
        return False
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    items = (downward or {}).get("items") or ()
    return all(one.get("path") == "namespace" and one.get("fieldRef") == namespace for one in items)


def _check_host_path(
    errors: FieldErrors, policy: Policy, volume: Object, field: str, containers: Containers
) -> None:
    allowed, path = policy.spec.get("allowedHostPaths") or (), volume["hostPath"].get("path", "")
    matching = [one for one in allowed if _has_prefix(path, one.get("pathPrefix", ""))]
    if allowed and not matching:
        errors.add(invalid(f"{field}.hostPath.pathPrefix", path, "is not allowed to be used"))
    elif matching and all(one.get("readOnly") for one in matching):
        for where, container in containers:
            for index, mount in enumerate(container.get("volumeMounts") or ()):
                if mount.get("name") == volume["name"] and not mount.get("readOnly"):
                    errors.add(invalid(f"{where}.volumeMounts[{index}].readOnly", False, "must be read-only"))


def _has_prefix(path: str, prefix: str) -> bool:
    """/foo is a prefix of /foo, /foo/ and /foo/bar, but not of /food."""
    path, prefix = path.removesuffix("/"), prefix.removesuffix("/")
    return path == prefix or path.startswith(f"{prefix}/")


def _check_driver(errors: FieldErrors, policy: Policy, source: str, volume: Object, field: str) -> None:
    listed, name, shown, text = DRIVERS[source]
    allowed, driver = policy.spec.get(listed) or (), volume[source].get("driver", "")
    if allowed and driver not in [one.get(name) for one in allowed]:
        errors.add(invalid(f"{field}.{shown}", driver, text))
