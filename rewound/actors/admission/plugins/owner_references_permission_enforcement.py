"""OwnerReferencesPermissionEnforcement: changing the owners of an object needs the permission to delete it.

An owner decides when the object is deleted, so setting one in an update could also delete the object. A reference with
blockOwnerDeletion delays the deletion of the owner, and needs the permission to update the owner's finalizers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rewound.actors.access.authorize import Attributes, Authorizer, Decision
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, forbidden, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.identity import User
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object

PODS: Final = Resource("", "pods")
FindKind = Callable[[str, str], Definition | None]  # by apiVersion and kind


class OwnerReferencesPermissionEnforcement(AsyncPlugin):
    name = "OwnerReferencesPermissionEnforcement"
    validates = (rule(CREATE, UPDATE, subresources=None),)

    def __init__(self, authorizer: Authorizer, find_kind: FindKind) -> None:
        self._authorizer = authorizer
        self._find_kind = find_kind

    def concerns(self, request: AdmissionRequest) -> bool:
        if request.context is None or request.context.caller is None:
            return False  # the server itself
        if request.subresource == "status" and request.definition.resource == PODS:
            return False  # cannot change owners
        return _owners(request.object) != _owners(request.old)

    async def admit(self, request: AdmissionRequest) -> Admitted:
        assert request.context is not None and request.context.caller is not None
        user = request.context.caller
        if request.operation != CREATE:
            await self._check_delete(user, request)
        blocking = _new_blocking(request)
        if blocking and not (await self._decide(_any_finalizers(user))).allowed:
            for owner in blocking:
                await self._check_finalizers(user, owner, request)
        return Admitted()

    async def _check_delete(self, user: User, request: AdmissionRequest) -> None:
        definition = request.definition
        decision = await self._decide(
            Attributes(
                user,
                "delete",
                definition.group,
                definition.version,
                definition.plural,
                request.subresource,
                request.namespace,
                request.name,
            )
        )
        if not decision.allowed:
            why = "cannot set an ownerRef on a resource you can't delete"
            raise forbidden(request, f"{why}: {_shown(decision)}")

    async def _check_finalizers(self, user: User, owner: Object, request: AdmissionRequest) -> None:
        version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        found = self._find_kind(version, kind)
        if found is None:
            unknown = f"no matches for kind {quoted_start(kind)} in version {quoted_start(version)}"
            where = f"cannot find RESTMapping for APIVersion {version} Kind {kind}"
            raise forbidden(request, f"cannot set blockOwnerDeletion in this case because {where}: {unknown}")
        namespace = request.namespace if found.namespaced else ""
        attributes = Attributes(
            user,
            "update",
            found.group,
            found.version,
            found.plural,
            "finalizers",
            namespace,
            owner.get("name", ""),
        )
        decision = await self._decide(attributes)
        if not decision.allowed:
            why = "an ownerReference refers to a resource you can't set finalizers on"
            raise forbidden(request, f"cannot set blockOwnerDeletion if {why}: {_shown(decision)}")

    async def _decide(self, attributes: Attributes) -> Decision:
        decision = self._authorizer.authorize(attributes)
        return decision if isinstance(decision, Decision) else await decision


def _any_finalizers(user: User) -> Attributes:
    return Attributes(user, "update", "*", "*", "*", "finalizers", "", "*")


def _owners(document: Object | None) -> list[Object]:
    owners: list[Object] = ((document or {}).get("metadata") or {}).get("ownerReferences") or []
    return owners


def _new_blocking(request: AdmissionRequest) -> list[Object]:
    """The references that now block the deletion of their owners and did not before."""
    blocking = {one.get("uid") for one in _owners(request.old) if one.get("blockOwnerDeletion")}
    return [
        one
        for one in _owners(request.object)
        if one.get("blockOwnerDeletion") and one.get("uid") not in blocking
    ]


def _shown(decision: Decision) -> str:
    return f"{decision.reason}, {decision.error or '<nil>'}"
