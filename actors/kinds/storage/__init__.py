"""The storage group: storage classes, CSI drivers with their nodes and capacities, and volume attachments."""

from __future__ import annotations

from actors.kinds.declaration.definition import Definition
from actors.kinds.storage import csi_driver, csi_node, csi_storage_capacity, storage_class, volume_attachment
from actors.names import Names

_KINDS = (csi_node, csi_storage_capacity, storage_class, volume_attachment)


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    return (
        csi_driver.define(names, features),
        *(kind.define(names) for kind in _KINDS),
        csi_storage_capacity.define_beta(names),
    )
