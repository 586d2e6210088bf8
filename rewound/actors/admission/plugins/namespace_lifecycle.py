"""NamespaceLifecycle: rejects creates in missing or terminating namespaces, and deletes of three system namespaces."""

from __future__ import annotations

from collections.abc import Callable

from rewound.actors.admission.caches import Namespaces
from rewound.actors.admission.plugin import Plugin, forbidden, rule
from rewound.actors.admission.request import CREATE, DELETE, AdmissionRequest
from rewound.actors.errors import Cause, Forbidden, NotFound, Resource
from rewound.actors.messages import Object
from rewound.actors.names import Names

NAMESPACES = Resource("", "namespaces")


class NamespaceLifecycle(Plugin):
    name = "NamespaceLifecycle"
    repeats = True  # a namespace may be deleted while a write waits
    mutates = (rule(CREATE, subresources=None, namespaced_only=True), rule(DELETE, of=(NAMESPACES,)))

    def __init__(self, names: Names, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._protected = frozenset({"default", names.system_namespace, names.public_namespace})

    def admits_all(self, operation: str) -> Callable[[str], bool] | None:
        return self._namespaces.is_known_active if operation == CREATE else None

    def mutate(self, request: AdmissionRequest) -> Object | None:
        """Rejects here, not in `validate`, because this error precedes all other errors of the object."""
        if request.operation == DELETE:
            self._refuse_deleting_protected(request)
        elif (terminating := self._namespaces.terminating(request.namespace)) is not False:
            self._refuse_creating_in(request, terminating)
        return None

    def _refuse_deleting_protected(self, request: AdmissionRequest) -> None:
        if request.name in self._protected:
            raise Forbidden(NAMESPACES, request.name, "this namespace may not be deleted")

    def _refuse_creating_in(self, request: AdmissionRequest, terminating: bool | None) -> None:
        if request.definition.storage.ephemeral:
            return  # access reviews must not reveal which namespaces exist
        if not terminating:
            raise NotFound(NAMESPACES, request.namespace)
        why = f"unable to create new content in namespace {request.namespace} because it is being terminated"
        text = f"namespace {request.namespace} is being terminated"
        cause = Cause("NamespaceTerminating", text, "metadata.namespace")
        raise forbidden(request, why, [cause])
