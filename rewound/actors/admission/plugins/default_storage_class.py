"""DefaultStorageClass: a new claim without a storage class gets the default class; of several the newest.

In 1.25 several default classes reject the claim.
"""

from __future__ import annotations

from typing import Final

from rewound.actors.admission.caches import CachedObjects
from rewound.actors.admission.plugin import Plugin, forbidden, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.kinds.core.volumes import PERSISTENT_VOLUME_CLAIM_SPEC
from rewound.actors.kinds.storage import DefaultClassMarks
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.feed import Feed
from rewound.actors.versions.features import NEWEST_DEFAULT_CLASS
from rewound.journal.log import Journal

CLAIMS: Final = Resource("", "persistentvolumeclaims")


class DefaultStorageClass(Plugin):
    name = "DefaultStorageClass"
    mutates = (rule(CREATE, of=(CLAIMS,)),)

    def __init__(self, names: Names, journal: Journal, feed: Feed, features: frozenset[str]) -> None:
        self._class_key = names.key("storage-class", "volume.beta")
        self._marks = DefaultClassMarks(names)
        resource = Resource(names.group("storage"), "storageclasses")
        self._defaults = CachedObjects(resource, journal, feed, self._creation_of_default)
        self._takes_newest = NEWEST_DEFAULT_CLASS in features

    def mutate(self, request: AdmissionRequest) -> Object | None:
        claim = request.object
        assert claim is not None
        spec = claim["spec"]
        if "storageClassName" in spec or self._class_key in claim["metadata"].get("annotations", {}):
            return None
        defaults = self._defaults.all()
        if not defaults:
            return None
        if len(defaults) > 1 and not self._takes_newest:
            why = f"Internal error occurred: {len(defaults)} default StorageClasses were found"
            raise forbidden(request, why)
        newest = max(defaults.values())
        name = min(name for name, created in defaults.items() if created == newest)
        named = {**spec, "storageClassName": name}
        return {**claim, "spec": PERSISTENT_VOLUME_CLAIM_SPEC.arranged(named)}

    def _creation_of_default(self, stored: Object) -> str | None:
        """Return when a default class was created; nothing is cached of the others."""
        return str(stored["metadata"]["creationTimestamp"]) if self._marks.are_on(stored) else None
