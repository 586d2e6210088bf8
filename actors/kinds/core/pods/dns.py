"""Fields of pods; rules follow."""

from __future__ import annotations

from actors.kinds.fields import STRING, STRINGS, Field, ListOf, Struct

HOST_ALIAS = Struct(
    "core.v1.HostAlias",
    Field("ip", STRING, 1),
    Field("hostnames", STRINGS, 2),
)
POD_DNS_CONFIG_OPTION = Struct(
    "core.v1.PodDNSConfigOption",
    Field("name", STRING, 1),
    Field("value", STRING, 2, pointer=True),
)
POD_DNS_CONFIG = Struct(
    "core.v1.PodDNSConfig",
    Field("nameservers", STRINGS, 1),
    Field("searches", STRINGS, 2),
    Field("options", ListOf(POD_DNS_CONFIG_OPTION), 3),
)
