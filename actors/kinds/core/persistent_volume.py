"""PersistentVolume: storage that exists independently of the claims to it.

Its source and volume mode are immutable; its class, size and claim reference can change. The secret with which
nodes expand a volume and the ReadWriteOncePod access mode belong to features and exist while those are on.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from functools import partial
from typing import Final

from actors.kinds.core.claim_spec import ACCESS_MODES, VOLUME_MODES
from actors.kinds.core.node_selector import NODE_SELECTOR, node_selector_rules
from actors.kinds.core.persistent_volume_sources import NAMES, SOURCES, SourceRules, has_subdomain_secret_name
from actors.kinds.core.references import OBJECT_REFERENCE
from actors.kinds.core.resources import round_up
from actors.kinds.core.volume_cells import volume_columns
from actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Strategy,
    Subresource,
    Table,
    keep_spec,
    keep_status,
)
from actors.kinds.declaration.deprecated_labels import (
    DeprecatedLabels,
    deprecated_labels,
    requirement_warnings,
)
from actors.kinds.declaration.meta import METADATA, metadata_rules, metadata_update_rules
from actors.kinds.features import NODE_EXPAND_SECRET, READ_WRITE_ONCE_POD
from actors.kinds.schema.fields import QUANTITIES, STRING, STRINGS, Field, Struct
from actors.kinds.validation import (
    IMMUTABLE,
    FieldError,
    FieldErrors,
    dns_subdomain,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    required,
)
from actors.kinds.values.go_format import format_value
from actors.kinds.values.quantity import NANOS, nanos_of
from actors.messages import Object
from actors.names import Names

RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
PHASES: Final = ("Available", "Bound", "Failed", "Pending", "Released")
INLINE: Final = "in the context of inline volumes"
NOT_INLINE: Final = f"may not be specified {INLINE}"
SOURCES_WITH_MOUNT_OPTIONS: Final = frozenset(
    (
        *(
            "gcePersistentDisk",
            "awsElasticBlockStore",
            "glusterfs",
            "nfs",
            "rbd",
            "quobyte",
            "iscsi",
            "cinder",
        ),
        *("cephfs", "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk"),
    )
)

NODE_AFFINITY = Struct("core.v1.VolumeNodeAffinity", Field("required", NODE_SELECTOR, 1, pointer=True))
SPEC = Struct(
    "core.v1.PersistentVolumeSpec",
    Field("capacity", QUANTITIES, 1),
    *SOURCES,
    Field("accessModes", STRINGS, 3),
    Field("claimRef", OBJECT_REFERENCE, 4, pointer=True, map_type="granular"),
    Field("persistentVolumeReclaimPolicy", STRING, 5, enum=RECLAIM_POLICIES),
    Field("storageClassName", STRING, 6),
    Field("mountOptions", STRINGS, 7),
    Field("volumeMode", STRING, 8, pointer=True),
    Field("nodeAffinity", NODE_AFFINITY, 9, pointer=True),
)
STATUS = Struct(
    "core.v1.PersistentVolumeStatus",
    Field("phase", STRING, 1, default="Pending", enum=PHASES),
    Field("message", STRING, 2),
    Field("reason", STRING, 3),
)
PERSISTENT_VOLUME = Struct(
    "core.v1.PersistentVolume", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3)
)


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    rules = VolumeRules(names, features)
    has_expand_secret = NODE_EXPAND_SECRET in features
    return Definition(
        group="",
        version="v1",
        kind="PersistentVolume",
        plural="persistentvolumes",
        names=DiscoveryNames(short_names=("pv",)),
        namespaced=False,
        check_name=name_is_subdomain,
        fields=PERSISTENT_VOLUME,
        set_defaults=set_defaults,
        subresources=(Subresource(name="status", prepare=keep_spec, validate=status_rules),),
        deletion=Deletion(returns_object=True),
        table=Table(volume_columns(names)),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create, has_expand_secret),
            prepare_for_update=partial(prepare_update, has_expand_secret),
            validate_create=rules.validate,
            validate_update=rules.validate_update,
            canonicalize=complete_phase,
            warnings=partial(warnings, deprecated_labels(names)),
        ),
    )


def set_defaults(new: Object) -> None:
    spec = new["spec"]
    round_up(spec.get("capacity", {}))
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    new["spec"] = SPEC.arranged(spec)


def prepare_create(has_expand_secret: bool, new: Object) -> None:
    new["status"] = {}
    if not has_expand_secret:
        _drop_expand_secret(new["spec"], {})


def complete_phase(new: Object) -> None:
    """After admission: webhooks review a new volume or claim without a phase."""
    new["status"].setdefault("phase", "Pending")


def prepare_update(has_expand_secret: bool, new: Object, old: Object) -> None:
    keep_status(new, old)
    if not has_expand_secret:
        _drop_expand_secret(new["spec"], old["spec"])


def _drop_expand_secret(spec: Object, before: Object) -> None:
    if "csi" in spec and "nodeExpandSecretRef" not in before.get("csi", {}):
        spec["csi"] = {part: value for part, value in spec["csi"].items() if part != "nodeExpandSecretRef"}


class VolumeRules:
    """Rules of volumes, and of the specs of volumes inside other objects."""

    def __init__(self, names: Names, features: frozenset[str] = frozenset()) -> None:
        self._features = features
        domains = tuple(dict.fromkeys((names.key_domain, names.group_domain)))
        self._sources = SourceRules(domains)
        self._options_key = names.key("mount-options", "volume.beta")

    def validate(self, errors: FieldErrors, new: Object) -> None:
        self._spec(errors, new, {})
        self._mount_options(errors, new)

    def validate_update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        own = errors.added_by(metadata_rules, new["metadata"], namespaced=False, check_name=name_is_subdomain)
        own += errors.added_by(self._spec, new, old["spec"])
        self._mount_options(errors, new)
        errors.add_all(own)
        _immutable_rules(errors, new["spec"], old["spec"])

    def validate_inline(self, errors: FieldErrors, spec: Object, field: str) -> None:
        """Validate a spec that is part of a VolumeAttachment and not an object of its own."""
        for part in ("claimRef", "capacity"):
            if part in spec:
                errors.add(forbidden(f"{field}.{part}", NOT_INLINE))
        if "csi" not in spec:
            errors.add(required(f"{field}.csi", f"has to be specified {INLINE}"))
        _access_mode_rules(errors, spec.get("accessModes", []), ACCESS_MODES, f"{field}.accessModes")
        if spec.get("persistentVolumeReclaimPolicy", "Retain") != "Retain":
            text = f"may only be Retain {INLINE}"
            errors.add(forbidden(f"{field}.persistentVolumeReclaimPolicy", text))
        if "nodeAffinity" in spec:
            errors.add(forbidden(f"{field}.nodeAffinity", NOT_INLINE))
        # A forbidden affinity counts as missing for a source that needs one.
        sources = {part: value for part, value in spec.items() if part != "nodeAffinity"}
        self._sources.validate(errors, sources, "", field, subdomain_secret_names=False)
        if "storageClassName" in spec:
            errors.add(forbidden(f"{field}.storageClassName", NOT_INLINE))
        if spec.get("volumeMode", "Filesystem") != "Filesystem":
            text = f"may not specify volumeMode other than Filesystem {INLINE}"
            errors.add(forbidden(f"{field}.volumeMode", text))

    def _spec(self, errors: FieldErrors, new: Object, before: Object) -> None:
        spec = new["spec"]
        modes = access_modes(before, self._features)
        policy, mode, class_name = (
            spec.get(part, "") for part in ("persistentVolumeReclaimPolicy", "volumeMode", "storageClassName")
        )
        _access_mode_rules(errors, spec.get("accessModes", []), modes, "spec.accessModes")
        _capacity_rules(errors, spec.get("capacity", {}), "spec.capacity")
        if policy not in RECLAIM_POLICIES:
            errors.add(not_supported("spec.persistentVolumeReclaimPolicy", policy, RECLAIM_POLICIES))
        _node_affinity_rules(errors, spec.get("nodeAffinity"), "spec.nodeAffinity")
        name, subdomain_names = new["metadata"].get("name", ""), has_subdomain_secret_name(before.get("csi"))
        self._sources.validate(errors, spec, name, "spec", subdomain_secret_names=subdomain_names)
        if policy == "Recycle" and _is_root(spec.get("hostPath")):
            text = "may not be 'recycle' for a hostPath mount of '/'"
            errors.add(forbidden("spec.persistentVolumeReclaimPolicy", text))
        if class_name:
            errors.add_each("spec.storageClassName", class_name, dns_subdomain(class_name))
        if mode not in VOLUME_MODES:
            errors.add(not_supported("spec.volumeMode", mode, VOLUME_MODES))

    def _mount_options(self, errors: FieldErrors, new: Object) -> None:
        """Mount options in the annotation that preceded the field; only some sources support them."""
        if self._options_key not in new["metadata"].get("annotations", {}):
            return
        if not SOURCES_WITH_MOUNT_OPTIONS.isdisjoint(new["spec"]):
            return
        text = "may not specify mount options for this volume type"
        errors.add(forbidden(f"metadata.annotations.{self._options_key}", text))


def status_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])


def warnings(known: DeprecatedLabels, new: Object, _: Object | None) -> list[str]:
    affinity = new["spec"].get("nodeAffinity", {}).get("required", {})
    field = "spec.nodeAffinity.required.nodeSelectorTerms"
    return [
        warning
        for index, term in enumerate(affinity.get("nodeSelectorTerms") or ())
        for warning in requirement_warnings(
            known, term.get("matchExpressions", ()), f"{field}[{index}].matchExpressions"
        )
    ]


def access_modes(before: Object, features: frozenset[str]) -> tuple[str, ...]:
    """The access modes that a volume or claim may have; an object that has the newest one may keep it."""
    newest = READ_WRITE_ONCE_POD in features or READ_WRITE_ONCE_POD in before.get("accessModes", ())
    return (*ACCESS_MODES, READ_WRITE_ONCE_POD) if newest else ACCESS_MODES


def _access_mode_rules(errors: FieldErrors, modes: list[str], supported: tuple[str, ...], field: str) -> None:
    if not modes:
        errors.add(required(field))
    for mode in modes:
        if mode not in supported:
            errors.add(not_supported(field, mode, supported))
    if READ_WRITE_ONCE_POD in modes and not set(ACCESS_MODES).isdisjoint(modes):
        errors.add(forbidden(field, f"may not use {READ_WRITE_ONCE_POD} with other access modes"))


def _capacity_rules(errors: FieldErrors, capacity: Mapping[str, str], field: str) -> None:
    if not capacity:
        errors.add(required(field))
    if list(capacity) != ["storage"]:
        text = f'Unsupported value: {format_value(dict(capacity))}: supported values: "storage"'
        errors.add(FieldError("FieldValueNotSupported", field, text))
    for name, amount in capacity.items():
        basic_amount_rules(errors, amount, f"{field}[{name}]")
        if nanos_of(amount) <= 0:
            errors.add(invalid(f"{field}[{name}]", amount, "must be greater than zero"))


def basic_amount_rules(errors: FieldErrors, amount: str, field: str) -> None:
    units = nanos_of(amount) // NANOS  # if negative, rounded away from zero
    if units < 0:
        errors.add(invalid(field, units, "must be a valid resource quantity"))


def _node_affinity_rules(errors: FieldErrors, affinity: Object | None, field: str) -> None:
    if affinity is None:
        return
    if "required" not in affinity:
        errors.add(required(f"{field}.required", "must specify required node constraints"))
    else:
        node_selector_rules(errors, affinity["required"], f"{field}.required")


def _is_root(host_path: Object | None) -> bool:
    return host_path is not None and posixpath.normpath(host_path["path"] or ".") in ("/", "//")


def _immutable_rules(errors: FieldErrors, spec: Object, before: Object) -> None:
    """Source, volume mode and node affinity are immutable; controllerExpandSecretRef may be set later, once."""
    sources = {name: spec[name] for name in NAMES if name in spec}
    if "csi" in sources and "csi" in before and "controllerExpandSecretRef" not in before["csi"]:
        kept = {k: v for k, v in sources["csi"].items() if k != "controllerExpandSecretRef"}
        sources["csi"] = kept
    if sources != {name: before[name] for name in NAMES if name in before}:
        text = "spec.persistentvolumesource is immutable after creation"
        errors.add(forbidden("spec.persistentvolumesource", text))
    if spec["volumeMode"] != before["volumeMode"]:
        errors.add(invalid("volumeMode", spec["volumeMode"], IMMUTABLE))
    if "nodeAffinity" in before and spec.get("nodeAffinity") != before["nodeAffinity"]:
        errors.add(invalid("nodeAffinity", spec.get("nodeAffinity"), IMMUTABLE))
