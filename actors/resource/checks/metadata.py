"""Validates the metadata of objects of all kinds.

On create the name format of the kind applies. On update both passes that all kinds share run here; a kind adds its own
passes in its `validate_update`.
"""

from __future__ import annotations

from actors.kinds.declaration.definition import Definition
from actors.kinds.declaration.meta import metadata_rules, metadata_update_rules
from actors.kinds.validation import FieldErrors, name_is_path_segment
from actors.messages import Object


def validate_metadata_create(errors: FieldErrors, metadata: Object, definition: Definition) -> None:
    """For kinds whose strategy does not validate it."""
    metadata_rules(
        errors,
        metadata,
        namespaced=definition.namespaced,
        check_name=definition.check_name,
        known_finalizers=definition.deletion.only_known_finalizers,
    )


def validate_metadata_update(
    errors: FieldErrors, metadata: Object, old: Object, definition: Definition
) -> None:
    metadata_rules(
        errors,
        metadata,
        namespaced=definition.namespaced,
        check_name=name_is_path_segment,
        known_finalizers=False,
    )
    if not errors.found:
        errors.valid_metadata = metadata
    metadata_update_rules(errors, metadata, old, known_finalizers=False)
