"""Which object a request means: its uid and its version, as far as the client says.

Asked by `decide` before anything else is. A replace and what is submitted say it in the object they send, where an
empty uid says nothing; a delete says it in its options, where an empty uid is one that no object has. The texts are
those that clients know: of a delete they name the kind and the record, of everything else the resource.
"""

from __future__ import annotations

from actors.errors import Conflict, Resource
from actors.kinds.declaration.definition import Definition
from actors.messages import DeleteOptions

UNCOMMITTED = "not committed yet"


def check_sent(definition: Definition, name: str, uid: str | None, actual: str) -> None:
    """The uid in an object that was sent."""
    if uid:
        _check_uid(definition, name, uid, actual)


def check_given_version(definition: Definition, name: str, version: str | None, actual: str | None) -> None:
    """`actual` is None while the object's last write is not committed: no client can name its version yet."""
    if version is not None and version != actual:
        meta = actual or UNCOMMITTED
        why = f"ResourceVersion in precondition: {version}, ResourceVersion in object meta: {meta}"
        raise Conflict(definition.resource, name, f"Precondition failed: {why}")


def check_delete(
    definition: Definition, name: str, options: DeleteOptions, uid: str, actual: str | None
) -> None:
    """`uid` and `actual` are the uid and the version of the object that is there."""
    if definition.deletion.conflicts_as_update:
        if options.uid is not None:
            _check_uid(definition, name, options.uid, uid)
        check_given_version(definition, name, options.resource_version, actual)
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
