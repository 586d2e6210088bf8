"""PersistentVolumeClaimResize: a claim may grow only if it is bound and its storage class allows expansion."""

from __future__ import annotations

from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.quantity import nanos_of
from rewound.actors.store.document import decode
from rewound.journal.log import Journal

CLAIMS = Resource("", "persistentvolumeclaims")
NOT_BOUND = "Only bound persistent volume claims can be expanded"
NOT_EXPANDABLE = (
    "only dynamically provisioned pvc can be resized and "
    "the storageclass that provisions the pvc must support resize"
)


class PersistentVolumeClaimResize(Plugin):
    name = "PersistentVolumeClaimResize"
    thread_safe = True
    validates = (rule(UPDATE, of=(CLAIMS,)),)

    def __init__(self, names: Names, journal: Journal) -> None:
        self._journal = journal
        self._classes = journal.type_id(f"storageclasses.{names.group('storage')}")
        self._class_key = names.key("storage-class", "volume.beta")

    def validate(self, request: AdmissionRequest) -> None:
        new, old = request.object, request.old
        assert new is not None and old is not None
        if nanos_of(_size(new)) <= nanos_of(_size(old)):
            return
        if old["status"].get("phase") != "Bound":
            raise Forbidden(CLAIMS, request.name, NOT_BOUND)
        if not self._expandable(new, old):
            raise Forbidden(CLAIMS, request.name, NOT_EXPANDABLE)

    def _expandable(self, new: Object, old: Object) -> bool:
        name = self._class_of(new)
        if not name or name != self._class_of(old):
            return False
        with self._journal.read() as view:
            row = view.get(self._classes, "", name)
        return row is not None and bool(decode(row.body).get("allowVolumeExpansion"))

    def _class_of(self, claim: Object) -> str:
        """The class in the older annotation, otherwise in the spec."""
        annotated = claim["metadata"].get("annotations", {}).get(self._class_key)
        return str(annotated if annotated is not None else claim["spec"].get("storageClassName", ""))


def _size(claim: Object) -> str:
    return str(claim["spec"]["resources"].get("requests", {}).get("storage", "0"))
