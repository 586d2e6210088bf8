"""The core group (v1): one module per kind, with its fields and its rules."""

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
from actors.kinds.declaration.definition import Definition
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
    resource_quota,
    secret,
    service,
    service_account,
)
# Kinds with fields of features that may be disabled.
_KINDS_WITH_FEATURES = (persistent_volume, persistent_volume_claim, pod, pod_template, replication_controller)


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    plain = (kind.define(names) for kind in _KINDS)
    with_features = (kind.define(names, features) for kind in _KINDS_WITH_FEATURES)
    return tuple(sorted((*plain, *with_features), key=lambda definition: definition.plural))
