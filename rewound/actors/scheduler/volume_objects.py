"""The storage objects that filters read: claims, volumes, classes, and the drivers' data about nodes.

A decision overlays the volumes and claims that it takes with their future state (`assume`), until they are stored like
that or the decision fails: the next pod sees them as taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.workloads.volume_matching import VolumeKeys, annotations_of, class_of


class Objects(Protocol):
    """The objects of one type."""

    def get(self, namespace: str, name: str) -> Object | None: ...

    def __iter__(self) -> Iterator[Object]: ...


class NoObjects:
    def get(self, namespace: str, name: str) -> Object | None:
        return None

    def __iter__(self) -> Iterator[Object]:
        return iter(())


@dataclass(slots=True)
class VolumeObjects:
    names: Names
    claims: Objects = field(default_factory=NoObjects)
    volumes: Objects = field(default_factory=NoObjects)
    classes: Objects = field(default_factory=NoObjects)
    csi_nodes: Objects = field(default_factory=NoObjects)
    csi_drivers: Objects = field(default_factory=NoObjects)
    csi_capacities: Objects = field(default_factory=NoObjects)
    keys: VolumeKeys = field(init=False)
    _assumed_volumes: dict[str, Object] = field(init=False, default_factory=dict)
    _assumed_claims: dict[tuple[str, str], Object] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.keys = VolumeKeys(self.names)

    def claim(self, namespace: str, name: str) -> Object | None:
        return _newer(self.claims.get(namespace, name), self._assumed_claims.get((namespace, name)))

    def volume(self, name: str) -> Object | None:
        return _newer(self.volumes.get("", name), self._assumed_volumes.get(name))

    def every_volume(self) -> Iterable[Object]:
        if not self._assumed_volumes:
            return self.volumes
        return (
            _newer(one, self._assumed_volumes.get(one["metadata"]["name"])) or one for one in self.volumes
        )

    def storage_class(self, name: str) -> Object | None:
        return self.classes.get("", name)

    def class_of(self, claim_or_volume: Object) -> str:
        """The name of its class."""
        return class_of(claim_or_volume, self.keys)

    def is_bound(self, claim: Object) -> bool:
        """Whether the binding of a claim is complete on both sides."""
        has_volume = bool(claim["spec"].get("volumeName"))
        return has_volume and self.keys.bind_completed in annotations_of(claim)

    def assume(self, claims: Iterable[Object], volumes: Iterable[Object]) -> None:
        for claim in claims:
            self._assumed_claims[claim["metadata"]["namespace"], claim["metadata"]["name"]] = claim
        for volume in volumes:
            self._assumed_volumes[volume["metadata"]["name"]] = volume

    def forget(self, claims: Iterable[Object], volumes: Iterable[Object]) -> None:
        for claim in claims:
            self._assumed_claims.pop((claim["metadata"]["namespace"], claim["metadata"]["name"]), None)
        for volume in volumes:
            self._assumed_volumes.pop(volume["metadata"]["name"], None)


def _newer(stored: Object | None, assumed: Object | None) -> Object | None:
    """The assumed object, as long as the stored one has not changed since."""
    if stored is None or assumed is None:
        return stored
    same = stored["metadata"].get("resourceVersion") == assumed["metadata"].get("resourceVersion")
    return assumed if same else stored
