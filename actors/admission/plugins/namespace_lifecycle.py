"""NamespaceLifecycle: nothing is made in a namespace that is missing or going, and three are never deleted."""

from __future__ import annotations

from actors.admission.chain import Review
from actors.admission.namespaces import Namespaces
from actors.errors import Cause, Forbidden, NotFound, Resource
from actors.names import Names

NAMESPACES = Resource("", "namespaces")


class NamespaceLifecycle:
    def __init__(self, names: Names, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._protected = frozenset({"default", names.system_namespace, names.public_namespace})

    def mutate(self, review: Review) -> None:
        """Refuses before anything else is looked at: a client must not learn of an object's other flaws first."""
        if review.operation == "DELETE":
            self._refuse_deleting_protected(review)
        elif review.operation == "CREATE" and review.definition.namespaced:
            self._refuse_creating_in(review)

    def validate(self, review: Review) -> None:
        return

    def _refuse_deleting_protected(self, review: Review) -> None:
        if review.definition.resource == NAMESPACES and review.name in self._protected:
            raise Forbidden(NAMESPACES, review.name, "this namespace may not be deleted")

    def _refuse_creating_in(self, review: Review) -> None:
        terminating = self._namespaces.terminating(review.namespace)
        if terminating is None:
            raise NotFound(NAMESPACES, review.namespace)
        if terminating:
            why = (
                f"unable to create new content in namespace {review.namespace} because it is being terminated"
            )
            text = f"namespace {review.namespace} is being terminated"
            cause = Cause("NamespaceTerminating", text, "metadata.namespace")
            raise Forbidden(review.definition.resource, review.name, why, [cause])
