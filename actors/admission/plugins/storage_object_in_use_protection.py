"""StorageObjectInUseProtection: new claims and volumes get a finalizer, so that none goes while it is in use."""

from __future__ import annotations

from actors.admission.chain import Review
from actors.errors import Resource
from actors.names import Names


class StorageObjectInUseProtection:
    def __init__(self, names: Names) -> None:
        self._finalizers = {
            Resource("", "persistentvolumeclaims"): names.key("pvc-protection"),
            Resource("", "persistentvolumes"): names.key("pv-protection"),
        }

    def mutate(self, review: Review) -> None:
        finalizer = self._finalizers.get(review.definition.resource)
        if finalizer is None or review.operation != "CREATE" or review.object is None:
            return
        metadata = review.object["metadata"]
        if finalizer not in metadata.get("finalizers", ()):
            metadata["finalizers"] = [*metadata.get("finalizers", ()), finalizer]

    def validate(self, review: Review) -> None:
        return
