"""The definition that FlowSchema and PriorityLevelConfiguration share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from actors.kinds.declaration.columns import Column
from actors.kinds.declaration.definition import (
    Definition,
    Storage,
    Strategy,
    Table,
    keep_status_and_bump_generation,
    reset_status_and_generation,
    status_subresource,
)
from actors.kinds.declaration.meta import metadata_rules
from actors.kinds.flowcontrol.status import status_rules
from actors.kinds.schema.fields import Struct
from actors.kinds.validation import FieldErrors, name_is_subdomain
from actors.messages import Object
from actors.names import Names


def flow_control_kind(
    names: Names,
    kind: str,
    fields: Struct,
    status: Struct,
    columns: tuple[Column, ...],
    rules: Callable[[FieldErrors, Object], None],
) -> Definition:
    """A kind that `rules` validate at every write."""

    def update_rules(errors: FieldErrors, new: Object, _: Object) -> None:
        metadata_rules(errors, new["metadata"], namespaced=False, check_name=name_is_subdomain)
        rules(errors, new)

    return Definition(
        group=names.group("flowcontrol.apiserver"),
        version="v1beta2",
        kind=kind,
        plural=f"{kind.lower()}s",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=fields,
        subresources=(status_subresource(status_rules),),
        storage=Storage(announced_version="v1beta1"),
        table=Table(columns),
        strategy=Strategy(
            prepare_for_create=partial(reset_status_and_generation, status),
            prepare_for_update=keep_status_and_bump_generation,
            validate_create=rules,
            validate_update=update_rules,
        ),
    )
