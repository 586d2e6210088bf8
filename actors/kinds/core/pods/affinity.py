"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.core.node_selector import NODE_SELECTOR, NODE_SELECTOR_TERM
from actors.kinds.fields import INT32, STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.label_selector import LABEL_SELECTOR

PREFERRED_SCHEDULING_TERM = Struct(
    "core.v1.PreferredSchedulingTerm",
    Field("weight", INT32, 1, required=True, always=True),
    Field("preference", NODE_SELECTOR_TERM, 2, required=True, always=True),
)
NODE_AFFINITY = Struct(
    "core.v1.NodeAffinity",
    Field("requiredDuringSchedulingIgnoredDuringExecution", NODE_SELECTOR, 1, pointer=True),
    Field("preferredDuringSchedulingIgnoredDuringExecution", ListOf(PREFERRED_SCHEDULING_TERM), 2),
)
POD_AFFINITY_TERM = Struct(
    "core.v1.PodAffinityTerm",
    Field("labelSelector", LABEL_SELECTOR, 1, pointer=True),
    Field("namespaces", STRINGS, 2),
    Field("topologyKey", STRING, 3, required=True, always=True),
    Field("namespaceSelector", LABEL_SELECTOR, 4, pointer=True),
)
WEIGHTED_POD_AFFINITY_TERM = Struct(
    "core.v1.WeightedPodAffinityTerm",
    Field("weight", INT32, 1, required=True, always=True),
    Field("podAffinityTerm", POD_AFFINITY_TERM, 2, required=True, always=True),
)
POD_AFFINITY = Struct(
    "core.v1.PodAffinity",
    Field("requiredDuringSchedulingIgnoredDuringExecution", ListOf(POD_AFFINITY_TERM), 1),
    Field("preferredDuringSchedulingIgnoredDuringExecution", ListOf(WEIGHTED_POD_AFFINITY_TERM), 2),
)
POD_ANTI_AFFINITY = Struct(
    "core.v1.PodAntiAffinity",
    Field("requiredDuringSchedulingIgnoredDuringExecution", ListOf(POD_AFFINITY_TERM), 1),
    Field("preferredDuringSchedulingIgnoredDuringExecution", ListOf(WEIGHTED_POD_AFFINITY_TERM), 2),
)
AFFINITY = Struct(
    "core.v1.Affinity",
    Field("nodeAffinity", NODE_AFFINITY, 1, pointer=True),
    Field("podAffinity", POD_AFFINITY, 2, pointer=True),
    Field("podAntiAffinity", POD_ANTI_AFFINITY, 3, pointer=True),
)
