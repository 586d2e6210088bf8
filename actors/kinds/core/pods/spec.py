"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.core.pods.affinity import AFFINITY
from actors.kinds.core.pods.containers import CONTAINER, EPHEMERAL_CONTAINER
from actors.kinds.core.pods.dns import HOST_ALIAS, POD_DNS_CONFIG
from actors.kinds.core.pods.placement import POD_READINESS_GATE, TOLERATION, TOPOLOGY_SPREAD_CONSTRAINT
from actors.kinds.core.pods.security import POD_SECURITY_CONTEXT
from actors.kinds.core.pods.volumes import VOLUME
from actors.kinds.core.references import LOCAL_OBJECT_REFERENCE
from actors.kinds.fields import BOOL, INT32, INT64, QUANTITIES, STRING, STRING_MAP, Field, ListOf, Struct

POD_OS = Struct(
    "core.v1.PodOS",
    Field("name", STRING, 1, required=True, always=True),
)
POD_SPEC = Struct(
    "core.v1.PodSpec",
    Field("volumes", ListOf(VOLUME), 1, patch="merge,retainKeys", merge_key="name"),
    Field("initContainers", ListOf(CONTAINER), 20, patch="merge", merge_key="name"),
    Field("containers", ListOf(CONTAINER), 2, required=True, always=True, patch="merge", merge_key="name"),
    Field("ephemeralContainers", ListOf(EPHEMERAL_CONTAINER), 34, patch="merge", merge_key="name"),
    Field("restartPolicy", STRING, 3, enum=("Always", "Never", "OnFailure"), default="Always"),
    Field("terminationGracePeriodSeconds", INT64, 4, pointer=True, default=30),
    Field("activeDeadlineSeconds", INT64, 5, pointer=True),
    Field(
        "dnsPolicy",
        STRING,
        6,
        enum=("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
        default="ClusterFirst",
    ),
    Field("nodeSelector", STRING_MAP, 7, map_type="atomic"),
    Field("serviceAccountName", STRING, 8),
    Field("serviceAccount", STRING, 9),
    Field("automountServiceAccountToken", BOOL, 21, pointer=True),
    Field("nodeName", STRING, 10),
    Field("hostNetwork", BOOL, 11),
    Field("hostPID", BOOL, 12),
    Field("hostIPC", BOOL, 13),
    Field("shareProcessNamespace", BOOL, 27, pointer=True),
    Field("securityContext", POD_SECURITY_CONTEXT, 14, pointer=True, default=dict),
    Field("imagePullSecrets", ListOf(LOCAL_OBJECT_REFERENCE), 15, patch="merge", merge_key="name"),
    Field("hostname", STRING, 16),
    Field("subdomain", STRING, 17),
    Field("affinity", AFFINITY, 18, pointer=True),
    Field("schedulerName", STRING, 19, default="default-scheduler"),
    Field("tolerations", ListOf(TOLERATION), 22),
    Field("hostAliases", ListOf(HOST_ALIAS), 23, patch="merge", merge_key="ip"),
    Field("priorityClassName", STRING, 24),
    Field("priority", INT32, 25, pointer=True),
    Field("dnsConfig", POD_DNS_CONFIG, 26, pointer=True),
    Field("readinessGates", ListOf(POD_READINESS_GATE), 28),
    Field("runtimeClassName", STRING, 29, pointer=True),
    Field("enableServiceLinks", BOOL, 30, pointer=True),
    Field("preemptionPolicy", STRING, 31, pointer=True),
    Field("overhead", QUANTITIES, 32),
    Field(
        "topologySpreadConstraints",
        ListOf(TOPOLOGY_SPREAD_CONSTRAINT),
        33,
        patch="merge",
        merge_key="topologyKey",
        list_type="map",
        list_keys=("topologyKey", "whenUnsatisfiable"),
    ),
    Field("setHostnameAsFQDN", BOOL, 35, pointer=True),
    Field("os", POD_OS, 36, pointer=True),
    Field("hostUsers", BOOL, 37, pointer=True),
)
