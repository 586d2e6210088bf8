"""The core group (v1): one module a kind, its fields and its rules side by side."""

from __future__ import annotations

from actors.kinds.core import (
    binding,
    component_status,
    config_map,
    endpoints,
    event,
    limit_range,
    namespace,
    node,
    persistent_volume,
    persistent_volume_claim,
    pod,
    pod_template,
    replication_controller,
    resource_quota,
    secret,
    service,
    service_account,
)
from actors.kinds.definition import Definition
from actors.names import Names

_KINDS = (
    binding,
    component_status,
    config_map,
    endpoints,
    event,
    limit_range,
    namespace,
    node,
    persistent_volume,
    persistent_volume_claim,
    pod,
    pod_template,
    replication_controller,
    resource_quota,
    secret,
    service,
    service_account,
)


def declare(names: Names) -> tuple[Definition, ...]:
    return tuple(kind.define(names) for kind in _KINDS)
