"""The rules that metadata of every object must keep, whatever its kind.

On create the kind's own name format counts. On update both passes that all kinds share are made here; a
kind adds its own passes, and the order of the causes, in its `validate_update`.
"""

from __future__ import annotations

from actors.kinds.declaration.definition import Definition
from actors.kinds.declaration.meta import metadata_change_rules, metadata_rules
from actors.kinds.validation.checks import FieldError, name_is_path_segment
from actors.messages import Object


def validate_metadata_create(metadata: Object, definition: Definition) -> list[FieldError]:
    if definition.strategy.validates_metadata:
        return []
    return metadata_rules(
        metadata,
        namespaced=definition.namespaced,
        check_name=definition.check_name,
        known_finalizers=definition.deletion.only_known_finalizers,
    )


def validate_metadata_update(metadata: Object, old: Object, definition: Definition) -> list[FieldError]:
    return [
        *metadata_rules(
            metadata,
            namespaced=definition.namespaced,
            check_name=name_is_path_segment,
            known_finalizers=False,
        ),
        *metadata_change_rules(metadata, old, known_finalizers=False),
    ]
