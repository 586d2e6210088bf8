"""All kinds of the core group. Not in the package itself: many use one of its modules, and need no other."""

from __future__ import annotations

from rewound.actors.kinds.core import (
    component_status,
    config_map,
    endpoints,
    event,
    limit_range,
    namespace,
    node,
    persistent_volumes,
    pod,
    pod_template,
    replication_controller,
    resource_quota,
    secret,
    service,
    service_account,
)
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import Names


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    """Return all kinds of the group; those with fields of gated features get the enabled ones."""
    definitions = (
        pod.define_binding(names),
        component_status.define(names),
        config_map.define(names),
        endpoints.define(names, features),
        event.define(names),
        limit_range.define(names),
        namespace.define(names),
        node.define(names, features),
        persistent_volumes.define_volume(names, features),
        persistent_volumes.define_claim(names, features),
        pod.define(names, features),
        pod_template.define(names, features),
        replication_controller.define(names, features),
        resource_quota.define(names),
        secret.define(names, features),
        service.define(names, features),
        service_account.define(names),
    )
    return tuple(sorted(definitions, key=lambda definition: definition.plural))
