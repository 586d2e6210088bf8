"""Computes the object after a request from the request's body: for audit logs without responses, and for deletes.

The server's own code applies patches, applies, deletes and bindings to the last known content. What a server adds
(admission, a new generation, defaults that depend on the cluster) is not known here.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from rewound.actors.admission.chain import working_copy
from rewound.actors.errors import RequestError
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Create, Delete, DeleteOptions, Patch, Replace, Submit, WriteContext
from rewound.actors.patch.errors import PatchError
from rewound.actors.patch.managed_fields.field_view import FieldViews
from rewound.actors.patch.transform import transform
from rewound.actors.resource.applying import apply_object
from rewound.actors.resource.current import Current
from rewound.actors.resource.decide import decide_submit, prepare_create, prepare_replace
from rewound.actors.resource.deletion import decide_delete, is_pending
from rewound.actors.resource.patching import patch_object
from rewound.actors.resource.proposing import Keep, Remove, Store
from rewound.actors.runtime.time_limit import run_limited
from rewound.recording.record.kinds import RecordedKind
from rewound.recording.record.requests import Request

Document = dict[str, Any]

AS_SENT: Final = "content as it was sent"
PATCHED: Final = "content by its patch"
ASSUMED_STRATEGIC: Final = "content by its patch, assumed to be strategic"
DELETED: Final = "content by its delete"
_DIRECTIVES: Final = ("$patch", "$setElementOrder/", "$retainKeys", "$deleteFromPrimitiveList/")
_TYPE: Final = ("kind", "apiVersion")
_NO_UID: Final = "00000000-0000-0000-0000-000000000000"  # in place of a uid that is not in the log
# Further errors that documents of a log may raise, because they are not validated.
_NO_OBJECT: Final = (KeyError, TypeError, AttributeError, ValueError, RecursionError)


class Unresolved(Exception):
    """The object after the request is unknown; the text says why."""


class Outcome(NamedTuple):
    removed: bool
    document: Document | None  # in storage form, also before it is removed; None: as before
    how: str  # where the content is from; empty if it is the same


def is_gone(kind: RecordedKind, document: Document, *, deleted: bool) -> bool:
    """Whether a write that leaves an object like this removes it. `deleted`: it is a delete, which may only mark it."""
    metadata = document["metadata"]
    if metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
        return False
    if kind.type_name == "namespaces" and (document.get("spec") or {}).get("finalizers"):
        return False
    return deleted or "deletionTimestamp" in metadata


def content_sent(kind: RecordedKind, before: Document | None, request: Request) -> Outcome:
    """The object after a request without a response; `before` is in storage form. Raises Unresolved."""
    try:
        found = run_limited(_outcome, kind, before, request)
        if not found.removed and found.document is not None and is_gone(kind, found.document, deleted=False):
            return Outcome(True, None, "")
        if found.document is not None and found.document["metadata"].get("uid") in ("", _NO_UID):
            del found.document["metadata"]["uid"]
        return found
    except (RequestError, PatchError) as error:
        raise Unresolved(f"the server accepted what cannot be done here ({str(error)[:200]})") from error
    except _NO_OBJECT as error:
        raise Unresolved(
            f"what was sent does not fit what is known of the object ({error!r:.200})"
        ) from error


def _outcome(kind: RecordedKind, before: Document | None, request: Request) -> Outcome:
    if request.deletes or request.subresource == "eviction":
        return _deleted(kind, before, request)
    if request.subresource == "scale":
        return _scaled(before, request)
    if request.sent is None:
        raise Unresolved("the log does not have what was sent")
    if request.verb == "patch":
        return _patched(kind, before, request)
    if request.verb == "create" and request.subresource:
        return _submitted(kind, before, request)
    return _replaced(kind, before, request)


def _deleted(kind: RecordedKind, before: Document | None, request: Request) -> Outcome:
    if before is None:
        raise Unresolved("the object is not known")
    sent = request.sent if isinstance(request.sent, dict) else {}
    sent = sent.get("deleteOptions", sent) if request.subresource else sent
    options = DeleteOptions(
        _whole(sent.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds", [None])[0])),
        str(sent.get("propagationPolicy") or request.query.get("propagationPolicy", [""])[0]),
        orphan_dependents=sent.get("orphanDependents"),
    )
    if kind.storage is None:
        return _deleted_custom(before, request, options)
    command = Delete(kind.api_version, request.namespace, request.name, _context(request), options)
    current = _current(before)
    if is_pending(kind.storage, current, command):
        return Outcome(False, None, "")
    match decide_delete(kind.storage, current, command):
        case Store(object=marked):
            return Outcome(False, marked, DELETED)
        case Keep():
            return Outcome(False, None, "")
        case Remove(last=last):
            return Outcome(True, last, DELETED if last is not None else "")


def _deleted_custom(before: Document, request: Request, options: DeleteOptions) -> Outcome:
    metadata = before["metadata"]
    finalizers = list(metadata.get("finalizers") or ())
    added = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}.get(options.propagation_policy)
    finalizers += [added] if added and added not in finalizers else []
    if not finalizers:
        return Outcome(True, None, "")
    if "deletionTimestamp" in metadata:
        return Outcome(False, None, "")
    marks: Document = {
        "deletionTimestamp": seconds_text(request.time),
        "deletionGracePeriodSeconds": 0,
        "finalizers": finalizers,
    }
    if isinstance(metadata.get("generation"), int):
        marks["generation"] = metadata["generation"] + 1
    return Outcome(False, {**before, "metadata": {**metadata, **marks}}, DELETED)


def _scaled(before: Document | None, request: Request) -> Outcome:
    """Apply a scale, which has the replicas of its object in the request as in the response."""
    found = request.returned if isinstance(request.returned, dict) else request.sent
    if before is None or not isinstance(found, dict) or "replicas" not in (found.get("spec") or {}):
        raise Unresolved("the log does not have its scale")
    spec, metadata = dict(before.get("spec") or {}), before["metadata"]
    if spec.get("replicas") != found["spec"]["replicas"] and isinstance(metadata.get("generation"), int):
        metadata = {**metadata, "generation": metadata["generation"] + 1}
    spec["replicas"] = found["spec"]["replicas"]
    return Outcome(False, {**before, "metadata": metadata, "spec": spec}, "content by its scale")


def _submitted(kind: RecordedKind, before: Document | None, request: Request) -> Outcome:
    """Apply a POST to a subresource, such as a pod's binding."""
    storage = kind.storage
    found = storage.subresource(request.subresource) if storage is not None else None
    if storage is None or found is None or found.submit is None or found.evicts:
        raise Unresolved(f"what {request.subresource} does is not known")
    current = None if before is None else _current(before)
    sent = {key: one for key, one in request.sent.items() if key not in _TYPE}
    command = Submit(
        kind.api_version, request.namespace, request.name, request.subresource, sent, _context(request)
    )
    stored = decide_submit(storage, current, command, sent)
    return Outcome(False, stored.object, f"content by its {request.subresource}")


def _replaced(kind: RecordedKind, before: Document | None, request: Request) -> Outcome:
    """The object after a create, an update or a patch: what was sent, with the fields that only the server sets."""
    sent = _stored(kind, {key: one for key, one in request.sent.items() if key not in _TYPE})
    return Outcome(False, _prepared(kind, before, sent, request), AS_SENT)


def _prepared(kind: RecordedKind, before: Document | None, sent: Document, request: Request) -> Document:
    """The object after the strategy of its kind; as it was sent if the strategy refuses it."""
    metadata = dict(sent.get("metadata") or {})
    metadata["name"] = metadata.get("name") or request.name
    metadata.pop("resourceVersion", None)
    if kind.namespaced:
        metadata["namespace"] = request.namespace
    new = {**sent, "metadata": metadata}
    if kind.definition is not None:
        try:
            return _by_strategy(kind.definition, before, new, request)
        except (RequestError, *_NO_OBJECT):
            pass  # a server of another release has other rules
    if before is None:
        metadata["creationTimestamp"] = metadata.get("creationTimestamp") or seconds_text(request.received)
        return new
    old = before["metadata"]
    metadata.update({name: old[name] for name in _OF_SERVER if name in old})
    if request.subresource == "status":
        return {**before, "status": sent.get("status")}
    if "status" in before and _has_status(kind):
        new["status"] = before["status"]
    return new


_OF_SERVER: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)


def _by_strategy(
    definition: Definition, before: Document | None, new: Document, request: Request
) -> Document:
    prepared = working_copy(new)
    if before is None:
        prepare_create(
            definition, Create(definition.api_version, request.namespace, new, _context(request)), prepared
        )
    else:
        command = Replace(
            definition.api_version,
            request.namespace if definition.namespaced else "",
            request.name,
            new,
            _context(request),
            request.subresource,
        )
        prepared, _ = prepare_replace(definition, _current(before), command, prepared, unversioned=True)
    if definition.strategy.canonicalize is not None:
        definition.strategy.canonicalize(prepared)
    return prepared


def _current(before: Document) -> Current:
    """The last known content of an object, for code that needs its uid."""
    return Current(0, {**before, "metadata": {"uid": _NO_UID, **before["metadata"]}})


def _has_status(kind: RecordedKind) -> bool:
    """Whether updates of the object leave its status alone, as for most custom kinds."""
    return kind.storage is None or kind.storage.subresource("status") is not None


def _patched(kind: RecordedKind, before: Document | None, request: Request) -> Outcome:
    if request.is_apply and kind.definition is not None and kind.storage is not None:
        applied = _applied(kind.definition, kind.storage, before, request)
        return Outcome(False, _prepared(kind, before, applied, request), PATCHED)
    if before is None and request.is_apply:
        return _replaced(kind, None, request)
    if before is None:
        raise Unresolved("the object is not known")
    definition, patch, how = kind.definition, request.sent, PATCHED
    if isinstance(patch, list):
        form = "json"
    elif not isinstance(patch, dict):
        raise Unresolved("the patch is neither an object nor a list")
    elif request.is_apply or (definition is None and not _has_directive(patch)):
        form = "merge"
    else:
        form = "strategic"
        if not _has_directive(patch) and _has_list(patch):
            how = ASSUMED_STRATEGIC
    if definition is None:
        patched, _ = transform(form, before, patch, None)
        return Outcome(False, patched, how)
    command = _patch(definition, form, patch, request)
    patched = patch_object(definition, _current(before), command, in_thread=True).object
    return Outcome(False, _prepared(kind, before, patched, request), how)


def _applied(
    definition: Definition, storage: Definition, before: Document | None, request: Request
) -> Document:
    views = FieldViews({one.api_version: one for one in (definition, storage)})
    current = None if before is None else _current(before)
    command = _patch(definition, "apply", request.sent, request)
    deciding = apply_object(views, definition, current, command, in_thread=True)
    try:
        deciding.send(None)
    except StopIteration as done:
        applied: Document = done.value
        return applied
    deciding.close()
    raise Unresolved("another server would have to convert it")


def _patch(definition: Definition, form: str, patch: Any, request: Request) -> Patch:
    return Patch(
        definition.api_version,
        request.namespace if definition.namespaced else "",
        request.name,
        form,
        patch,
        _context(request),
        request.subresource,
        field_validation="Ignore",
        force=True,  # the server accepted it
    )


def _context(request: Request) -> WriteContext:
    return WriteContext(request.time, request.user, request.manager, "", "")


def _stored(kind: RecordedKind, served: Document) -> Document:
    definition = kind.definition
    if definition is None or definition.storage.conversion is None:
        return served
    return dict(definition.storage.conversion.to_storage(served))


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, str)) and str(value).lstrip("-").isdecimal() else None


def _has_directive(patch: Any) -> bool:
    if isinstance(patch, dict):
        return any(key.startswith(_DIRECTIVES) or _has_directive(one) for key, one in patch.items())
    return isinstance(patch, list) and any(map(_has_directive, patch))


def _has_list(patch: Any) -> bool:
    if isinstance(patch, dict):
        return any(map(_has_list, patch.values()))
    return isinstance(patch, list)
