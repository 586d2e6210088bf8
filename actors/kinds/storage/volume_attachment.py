"""VolumeAttachment: a request to attach a volume to a node, and its outcome. The spec is immutable."""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.kinds.core.persistent_volume import SPEC as PERSISTENT_VOLUME_SPEC
from actors.kinds.core.persistent_volume import VolumeRules
from actors.kinds.core.pods.volume_sources import driver_name_rules
from actors.kinds.declaration.columns import AGE, NAME, Column, at
from actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    Strategy,
    Table,
    clear_status,
    keep_status,
    status_subresource,
)
from actors.kinds.declaration.meta import METADATA, metadata_rules
from actors.kinds.schema.fields import BOOL, STRING, STRING_MAP, TIME, Field, Struct
from actors.kinds.validation import (
    IMMUTABLE,
    FieldErrors,
    dns_subdomain,
    forbidden,
    invalid,
    name_is_subdomain,
    required,
    size,
    too_long,
)
from actors.messages import Object
from actors.names import Names

MAX_METADATA_BYTES: Final = 256 * 1024
MAX_MESSAGE_BYTES: Final = 1024
EXACTLY_ONE_SOURCE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"

SOURCE = Struct(
    "storage.v1.VolumeAttachmentSource",
    Field("persistentVolumeName", STRING, 1, pointer=True),
    Field("inlineVolumeSpec", PERSISTENT_VOLUME_SPEC, 2, pointer=True),
)
SPEC = Struct(
    "storage.v1.VolumeAttachmentSpec",
    Field("attacher", STRING, 1, required=True, always=True),
    Field("source", SOURCE, 2, required=True),
    Field("nodeName", STRING, 3, required=True, always=True),
)
ERROR = Struct("storage.v1.VolumeError", Field("time", TIME, 1), Field("message", STRING, 2))
STATUS = Struct(
    "storage.v1.VolumeAttachmentStatus",
    Field("attached", BOOL, 1, required=True, always=True),
    Field("attachmentMetadata", STRING_MAP, 2),
    Field("attachError", ERROR, 3, pointer=True),
    Field("detachError", ERROR, 4, pointer=True),
)
VOLUME_ATTACHMENT = Struct(
    "storage.v1.VolumeAttachment",
    METADATA,
    Field("spec", SPEC, 2, required=True),
    Field("status", STATUS, 3),
)


COLUMNS: Final = (
    NAME,
    Column(
        "Attacher", "string", "CSI driver that attaches the volume.", at("spec", "attacher"), format="name"
    ),
    Column("PV", "string", "PersistentVolume to attach.", at("spec", "source", "persistentVolumeName")),
    Column("Node", "string", "Node to attach the volume to.", at("spec", "nodeName")),
    Column("Attached", "boolean", "Whether the volume is attached.", at("status", "attached")),
    AGE,
)


def define(names: Names) -> Definition:
    rules = AttachmentRules(names)
    return Definition(
        group=names.group("storage"),
        version="v1",
        kind="VolumeAttachment",
        plural="volumeattachments",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=VOLUME_ATTACHMENT,
        subresources=(status_subresource(rules.validate_update),),
        deletion=Deletion(returns_object=True),
        table=Table(COLUMNS),
        strategy=Strategy(
            allow_unconditional_update=False,
            prepare_for_create=partial(clear_status, STATUS),
            prepare_for_update=keep_status,
            validate_create=rules.validate_create,
            validate_update=rules.validate_update,
        ),
    )


class AttachmentRules:
    def __init__(self, names: Names) -> None:
        self._volumes = VolumeRules(names)

    def validate_create(self, errors: FieldErrors, new: Object) -> None:
        """Names of new attachments have stricter rules than those of existing ones."""
        spec = new["spec"]
        self._validate(errors, new)
        driver_name_rules(errors, spec["attacher"], "spec.attacher")
        name = spec["source"].get("persistentVolumeName")
        if name is not None:
            errors.add_each("spec.source.persistentVolumeName", name, dns_subdomain(name))

    def validate_update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        own = errors.added_by(metadata_rules, new["metadata"], namespaced=False, check_name=name_is_subdomain)
        own += errors.added_by(self._validate, new)
        errors.add_all(own)
        if new["spec"] != old["spec"]:
            errors.add(invalid("spec", new["spec"], IMMUTABLE))

    def _validate(self, errors: FieldErrors, new: Object) -> None:
        spec = new["spec"]
        if not spec["attacher"]:
            errors.add(required("spec.attacher"))
        self._source(errors, spec["source"], "spec.source")
        errors.add_each("spec.nodeName", spec["nodeName"], dns_subdomain(spec["nodeName"]))
        _status_rules(errors, new["status"])

    def _source(self, errors: FieldErrors, source: Object, field: str) -> None:
        name, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
        if name is None and inline is None:
            errors.add(required(field, EXACTLY_ONE_SOURCE))
            return
        if name is not None and inline is not None:
            errors.add(forbidden(field, EXACTLY_ONE_SOURCE))
            return
        if inline is not None:
            self._volumes.validate_inline(errors, inline, f"{field}.inlineVolumeSpec")
            return
        text = "must specify non empty persistentVolumeName"
        if not name:
            errors.add(required(f"{field}.persistentVolumeName", text))


def _status_rules(errors: FieldErrors, status: Object) -> None:
    metadata = status.get("attachmentMetadata", {})
    if sum(size(key) + size(value) for key, value in metadata.items()) > MAX_METADATA_BYTES:
        errors.add(too_long("status.attachmentMetadata", MAX_METADATA_BYTES))
    for part in ("attachError", "detachError"):
        if size(status.get(part, {}).get("message", "")) > MAX_MESSAGE_BYTES:
            # As in Kubernetes, the error names another limit than the one that is enforced.
            errors.add(too_long(f"status.{part}.message", MAX_METADATA_BYTES))
