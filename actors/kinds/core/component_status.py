"""ComponentStatus: how the parts of a cluster are, in a form that nobody fills any more.

It is still described and still listed, and the list is empty: what there is to know is told by `/livez` and
`/readyz`.
"""

from __future__ import annotations

from actors.kinds.checks import name_is_subdomain
from actors.kinds.definition import Definition
from actors.kinds.fields import STRING, Field, ListOf, Struct
from actors.kinds.meta import METADATA
from actors.names import Names

COMPONENT_CONDITION = Struct(
    "core.v1.ComponentCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("message", STRING, 3),
    Field("error", STRING, 4),
)
COMPONENT_STATUS = Struct(
    "core.v1.ComponentStatus",
    METADATA,
    Field("conditions", ListOf(COMPONENT_CONDITION), 2, patch="merge", merge_key="type"),
)


def define(_: Names) -> Definition:
    return Definition(
        group="",
        version="v1",
        kind="ComponentStatus",
        plural="componentstatuses",
        short_names=("cs",),
        namespaced=False,
        fields=COMPONENT_STATUS,
        verbs=("get", "list"),
        check_name=name_is_subdomain,
        deprecated="v1 ComponentStatus is deprecated in v1.19+",
    )
