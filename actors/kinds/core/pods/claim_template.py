"""Ephemeral volumes: the template of the claim that is created for a pod.

The claim is named after pod and volume and owned by the pod; the template sets only its labels and annotations.
"""

from __future__ import annotations

from typing import Final

from actors.kinds.core.claim_spec import PERSISTENT_VOLUME_CLAIM_SPEC, claim_spec_rules
from actors.kinds.declaration.meta import TEMPLATE_META, annotation_rules, label_rules
from actors.kinds.schema.fields import Field, Struct
from actors.kinds.validation import FieldErrors, forbidden, required
from actors.messages import Object

PERSISTENT_VOLUME_CLAIM_TEMPLATE = Struct(
    "core.v1.PersistentVolumeClaimTemplate",
    Field("metadata", TEMPLATE_META, 1),
    Field("spec", PERSISTENT_VOLUME_CLAIM_SPEC, 2, required=True, always=True),
)
EPHEMERAL_VOLUME_SOURCE = Struct(
    "core.v1.EphemeralVolumeSource",
    Field("volumeClaimTemplate", PERSISTENT_VOLUME_CLAIM_TEMPLATE, 1, pointer=True),
)

_ALLOWED_METADATA: Final = frozenset(("labels", "annotations"))
_NAME_IN_PATHS: Final = {"uid": "uID"}  # error messages write it differently


def ephemeral_rules(errors: FieldErrors, source: Object, field: str) -> None:
    template = source.get("volumeClaimTemplate")
    field = f"{field}.volumeClaimTemplate"
    if template is None:
        errors.add(required(field))
    else:
        _metadata_rules(errors, template["metadata"], f"{field}.metadata")
        claim_spec_rules(errors, template["spec"], f"{field}.spec")


def _metadata_rules(errors: FieldErrors, metadata: Object, field: str) -> None:
    annotation_rules(errors, metadata.get("annotations", {}), f"{field}.annotations")
    label_rules(errors, metadata.get("labels", {}), f"{field}.labels")
    for part, value in metadata.items():
        if part not in _ALLOWED_METADATA and value is not None:
            text = "cannot be set for an ephemeral volume"
            errors.add(forbidden(f"{field}.{_NAME_IN_PATHS.get(part, part)}", text))
