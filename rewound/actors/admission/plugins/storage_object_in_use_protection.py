"""StorageObjectInUseProtection: new claims, volumes and VolumeAttributesClasses get a finalizer, so that none is
removed while it is in use.
"""

from __future__ import annotations

from typing import Final

from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import ATTRIBUTES_CLASSES, CLASSES_PROTECTED

CLAIMS: Final = Resource("", "persistentvolumeclaims")
VOLUMES: Final = Resource("", "persistentvolumes")


class StorageObjectInUseProtection(Plugin):
    name = "StorageObjectInUseProtection"
    thread_safe = True

    def __init__(self, names: Names, features: frozenset[str]) -> None:
        self._finalizers = {
            CLAIMS: names.key("pvc-protection"),
            VOLUMES: names.key("pv-protection"),
        }
        if ATTRIBUTES_CLASSES in features and CLASSES_PROTECTED in features:
            classes = Resource(names.group("storage"), "volumeattributesclasses")
            self._finalizers[classes] = names.key("vac-protection")
        self.mutates = (rule(CREATE, of=tuple(self._finalizers)),)

    def mutate(self, request: AdmissionRequest) -> Object | None:
        new, finalizer = request.object, self._finalizers[request.definition.resource]
        assert new is not None
        metadata = new["metadata"]
        finalizers = metadata.get("finalizers", ())
        if finalizer in finalizers:
            return None
        return {**new, "metadata": {**metadata, "finalizers": [*finalizers, finalizer]}}
