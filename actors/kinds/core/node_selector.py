"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.fields import STRING, STRINGS, Field, ListOf, Struct

NODE_SELECTOR_REQUIREMENT = Struct(
    "core.v1.NodeSelectorRequirement",
    Field("key", STRING, 1, required=True, always=True),
    Field(
        "operator",
        STRING,
        2,
        required=True,
        always=True,
        enum=("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"),
    ),
    Field("values", STRINGS, 3),
)
NODE_SELECTOR_TERM = Struct(
    "core.v1.NodeSelectorTerm",
    Field("matchExpressions", ListOf(NODE_SELECTOR_REQUIREMENT), 1),
    Field("matchFields", ListOf(NODE_SELECTOR_REQUIREMENT), 2),
    atomic=True,
)
NODE_SELECTOR = Struct(
    "core.v1.NodeSelector",
    Field("nodeSelectorTerms", ListOf(NODE_SELECTOR_TERM), 1, required=True, always=True),
    atomic=True,
)
