"""Preconditions of a request: the uid and the resourceVersion that the client expects.

`decide` checks them first. Replaces and POSTs to subresources have them in the object, where an empty uid is no
precondition; deletes have them in their options, where an empty uid matches no object. The texts are those of
Kubernetes: for deletes they have the kind and say "record", for all others the resource.
"""

from __future__ import annotations

from actors.errors import Conflict, Resource
from actors.kinds.declaration.definition import Definition
from actors.messages import DeleteOptions

UNCOMMITTED = "not committed yet"


def check_sent_uid(definition: Definition, name: str, uid: str | None, actual: str) -> None:
    """Check the uid in a sent object."""
    if uid:
        _check_uid(definition, name, uid, actual)


def check_version_precondition(
    definition: Definition, name: str, version: str | None, actual: str | None
) -> None:
    """`actual` is None while the object's last write is not committed: no client can name its version yet."""
    if version is not None and version != actual:
        meta = actual or UNCOMMITTED
        why = f"ResourceVersion in precondition: {version}, ResourceVersion in object meta: {meta}"
        raise Conflict(definition.resource, name, f"Precondition failed: {why}")


def check_delete(
    definition: Definition, name: str, options: DeleteOptions, uid: str, actual: str | None
) -> None:
    """`uid` and `actual` are the uid and the version of the current object."""
    if definition.deletion.uid_is_precondition:
        if options.uid is not None:
            _check_uid(definition, name, options.uid, uid)
        check_version_precondition(definition, name, options.resource_version, actual)
        return
    kind = Resource(definition.error_group, definition.kind)
    if options.uid is not None and options.uid != uid:
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid})"
        raise Conflict(kind, name, f"{why}. The object might have been deleted and then recreated")
    version = options.resource_version
    if version is not None and version != actual:
        record = f"does not match the ResourceVersion in record ({actual or UNCOMMITTED})"
        why = f"the ResourceVersion in the precondition ({version}) {record}"
        raise Conflict(kind, name, f"{why}. The object might have been modified")


def _check_uid(definition: Definition, name: str, uid: str, actual: str) -> None:
    if uid != actual:
        why = f"UID in precondition: {uid}, UID in object meta: {actual}"
        raise Conflict(definition.resource, name, f"Precondition failed: {why}")
