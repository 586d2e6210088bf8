"""AdmissionReview: the request that a webhook gets, and what the server reads from the response."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec
import orjson

from rewound.actors.admission.request import CONNECT, CREATE, DELETE, AdmissionRequest
from rewound.actors.admission.webhooks.hook import REVIEW_VERSIONS, Hook
from rewound.actors.admission.webhooks.matching import NAMESPACES
from rewound.actors.errors import TooLarge, WebhookDenied
from rewound.actors.golang.json import dumps
from rewound.actors.golang.quoting import quoted
from rewound.actors.identity import AUTHENTICATED, MASTERS, User
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.names import Names
from rewound.actors.runtime.large_work import COUNTED_BYTES, MAX_STORED_VALUES, check_values

ACCOUNT_PREFIX: Final = "system:serviceaccount:"
JSON_PATCH: Final = "JSONPatch"
REVIEW: Final = "AdmissionReview"
STATUS: Final = ("v1", "Status")
LOWEST_REFUSAL, HIGHEST_STATUS = 400, 999
MAX_COMMON: Final = 256  # kinds, operations and versions of reviews; custom kinds come and go
_DETAILS: Final = ("name", "group", "kind", "uid")


class BadResponse(Exception):
    """The response of a webhook breaks the rules of a review; the text says how."""


class Undecodable(BadResponse):
    """It is not even a review: not JSON, another kind, or a member of another type."""


class Verdict(msgspec.Struct, frozen=True):
    allowed: bool
    status: Object = msgspec.field(default_factory=dict)
    patch: bytes = b""
    patch_type: str = ""
    warnings: tuple[str, ...] = ()
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


ALLOWED: Final = Verdict(True)


class Reviews:
    """Builds and reads reviews in the names of one dialect."""

    def __init__(self, names: Names) -> None:
        group = names.group("admission")
        self._versions = {one: f"{group}/{one}" for one in REVIEW_VERSIONS}
        self._meta = f"{names.group('meta')}/v1"
        # What all reviews of a kind have in common, encoded: the parts before and behind the uid.
        self._common: dict[tuple[str, Definition, Definition, str, bool], tuple[bytes, bytes]] = {}

    def request(
        self,
        uid: str,
        hook: Hook,
        definition: Definition,
        request: AdmissionRequest,
        new: Object | None,
        old: Object | None,
    ) -> bytes:
        """The encoded review; `definition` is the version in which the objects are. Any thread may call it."""
        review = self._variable_part(request, new, old)
        start, middle = self._common_parts(hook, definition, request)
        return b"".join((start, uid.encode(), middle, memoryview(dumps(review))[1:], b"}"))

    def fields(self, definition: Definition, resource: Definition, request: AdmissionRequest) -> Object:
        """The fields of an AdmissionRequest as expressions see them: without its objects, and with an empty uid.

        `definition` is the one that `request.kind` names, `resource` that which `request.resource` names.
        """
        new = None if request.operation == CONNECT else request.object
        types, rest = _types(definition, resource, request), self._variable_part(request, new)
        return {"uid": "", **types, **rest, "object": None}

    def _variable_part(
        self, request: AdmissionRequest, new: Object | None, old: Object | None = None
    ) -> Object:
        review: Object = {}
        if name := reviewed_name(request, new):
            review["name"] = name
        if namespace := reviewed_namespace(request):
            review["namespace"] = namespace
        review["operation"] = request.operation
        review["userInfo"] = _user_info(request)
        review["object"] = new
        review["oldObject"] = old
        review["dryRun"] = request.dry_run
        review["options"] = self._options(request)
        return review

    def _common_parts(
        self, hook: Hook, definition: Definition, request: AdmissionRequest
    ) -> tuple[bytes, bytes]:
        connects = request.operation == CONNECT
        key = hook.review_version, definition, request.definition, request.subresource, connects
        found = self._common.get(key)
        if found is None:
            if len(self._common) >= MAX_COMMON:
                self._common.clear()
            found = self._common[key] = _encode_common(
                self._versions[hook.review_version], definition, request
            )
        return found

    def _options(self, request: AdmissionRequest) -> Object | None:
        if request.operation == CONNECT:
            return None
        dry_run: Object = {"dryRun": ["All"]} if request.dry_run else {}
        if request.operation == DELETE:
            options = _delete_options(request)
            return {"kind": "DeleteOptions", "apiVersion": self._meta, **options, **dry_run}
        kind = "CreateOptions" if request.operation == CREATE else "UpdateOptions"
        sent_options = dict(request.context.options) if request.context is not None else {}
        return {"kind": kind, "apiVersion": self._meta, **dry_run, **sent_options}

    def verdict(self, uid: str, hook: Hook, raw: bytes, *, mutating: bool) -> Verdict:
        """What a webhook decided. BadResponse if it did not respond with a review of this request. Any thread."""
        response = _decoded(raw)
        if _only_allows(uid, self._versions[hook.review_version], response):
            return ALLOWED
        exact = hook.review_version == "v1"  # earlier webhooks may leave out the type, and have any uid
        self._check_kind(hook, response)
        found = response.get("response")
        if not isinstance(found, dict | None):
            raise Undecodable("response must be an object")
        sent: dict[str, Any] = found or {}
        sent_uid, (patch, patch_type) = _text(sent, "uid"), _patch(sent)
        decided = Verdict(
            _allowed(sent),
            _status(sent),
            patch,
            patch_type or JSON_PATCH,
            _warnings(sent),
            _annotations(sent),
        )
        if found is None:
            raise BadResponse("webhook response was absent")
        if exact:
            self._check_type(hook, response)
            if sent_uid != uid:
                raise BadResponse(f'expected response.uid="{uid}", got {quoted(sent_uid[:64])}')
        _check_patch(patch, patch_type, mutating=mutating, exact=exact)
        return decided

    def _check_kind(self, hook: Hook, response: dict[str, Any]) -> None:
        """A response of another kind is none; one without a kind or version has that of the request."""
        expected = self._versions[hook.review_version], REVIEW
        version, kind = _text(response, "apiVersion") or expected[0], _text(response, "kind") or expected[1]
        if (version, kind) == expected:
            return
        if (version, kind) == STATUS or (kind == REVIEW and version in self._versions.values()):
            got, wanted = (one.rpartition("/")[2] for one in (version, expected[0]))
            raise Undecodable(f"converting ({got}.{kind}) to ({wanted}.{REVIEW}): unknown conversion")
        raise Undecodable(f"no kind {quoted(kind[:64])} is registered for version {quoted(version[:64])}")

    def _check_type(self, hook: Hook, response: dict[str, Any]) -> None:
        expected = self._versions[hook.review_version], REVIEW
        got = _text(response, "apiVersion"), _text(response, "kind")
        if got != expected:
            raise BadResponse(
                f"expected webhook response of {expected[0]}, Kind={expected[1]}, "
                f"got {got[0] or '/'}, Kind={got[1]}"
            )


def _encode_common(version: str, definition: Definition, request: AdmissionRequest) -> tuple[bytes, bytes]:
    types = _types(definition, definition, request)
    review = dumps({"kind": "AdmissionReview", "apiVersion": version, "request": {"uid": ""}})
    return review.removesuffix(b'"}}'), b'",' + dumps(types)[1:-1] + b","


def _types(definition: Definition, resource: Definition, request: AdmissionRequest) -> Object:
    original, subresource = request.definition, request.subresource
    types: Object = {"kind": _kind(request.viewed_in(definition)), "resource": _resource(resource)}
    if subresource:
        types["subResource"] = subresource
    types["requestKind"] = _kind(request.viewed_in(original))
    types["requestResource"] = _resource(original)
    if subresource:
        types["requestSubResource"] = subresource
    return types


def _decoded(raw: bytes) -> dict[str, Any]:
    try:
        if len(raw) > COUNTED_BYTES:
            check_values(raw, MAX_STORED_VALUES)  # as many as an object has, if the review is echoed
        value = orjson.loads(raw)
    except TooLarge:
        raise Undecodable(f"the response has more than {MAX_STORED_VALUES} values") from None
    except orjson.JSONDecodeError:
        raise Undecodable("the response is not JSON") from None
    if not isinstance(value, dict):
        raise Undecodable("the response is not a JSON object")
    return value


def _only_allows(uid: str, version: str, response: dict[str, Any]) -> bool:
    """Whether a response allows the write and says nothing else, as most do."""
    found = response.get("response")
    return (
        type(found) is dict
        and len(found) == 2
        and found.get("allowed") is True
        and found.get("uid") == uid
        and response.get("apiVersion") == version
        and response.get("kind") == "AdmissionReview"
    )


def denial(hook: Hook, status: Object) -> WebhookDenied:
    """The error of a webhook that does not allow a write."""
    code = status.get("code", 0)
    if code < LOWEST_REFUSAL:
        code = LOWEST_REFUSAL
    elif code > HIGHEST_STATUS:
        code = 500
    denied = f'admission webhook "{hook.name}" denied the request'
    why = status.get("message") or status.get("reason")
    message = f"{denied}: {why}" if why else f"{denied} without explanation"
    return WebhookDenied(code, status.get("reason", ""), message, _details(status.get("details") or {}))


def _details(sent: Object) -> Object | None:
    """The details of a Status, without what is not one or has another type."""
    found = {name: sent[name] for name in _DETAILS if isinstance(sent.get(name), str)}
    seconds, causes = sent.get("retryAfterSeconds"), sent.get("causes")
    if isinstance(causes, list):
        found["causes"] = [
            {name: one[name] for name in ("reason", "message", "field") if isinstance(one.get(name), str)}
            for one in causes
            if isinstance(one, dict)
        ]
    if isinstance(seconds, int) and 0 <= seconds < 1 << 31:
        found["retryAfterSeconds"] = seconds
    return found or None


def _kind(viewed: Definition) -> Object:
    return {"group": viewed.group, "version": viewed.version, "kind": viewed.kind}


def _resource(definition: Definition) -> Object:
    return {"group": definition.group, "version": definition.version, "resource": definition.plural}


def reviewed_name(request: AdmissionRequest, new: Object | None) -> str:
    """The name of the object, which may be generated; none for a delete of a whole collection."""
    if request.in_collection:
        return ""
    return request.name or ((new or {}).get("metadata") or {}).get("name", "")


def reviewed_namespace(request: AdmissionRequest) -> str:
    """A Namespace object is in its own namespace, unless its name is to be generated."""
    if request.definition.resource == NAMESPACES:
        return request.name
    return request.namespace


def user_of(request: AdmissionRequest) -> User:
    """Who makes a request; controllers of this server have the names and groups that clients would have."""
    caller = request.context.caller if request.context is not None else None
    if caller is not None:
        return caller
    return User(request.user, "", tuple(_groups_of_controller(request.user)))


def _user_info(request: AdmissionRequest) -> Object:
    caller = request.context.caller if request.context is not None else None
    if caller is None:
        return {"username": request.user, "groups": _groups_of_controller(request.user)}
    info: Object = {"username": caller.name}
    if caller.uid:
        info["uid"] = caller.uid
    if caller.groups:
        info["groups"] = list(caller.groups)
    if caller.extra:
        info["extra"] = {key: list(values) for key, values in caller.extra}
    return info


def _groups_of_controller(user: str) -> list[str]:
    """The groups that a client with the name of a controller of this server would have."""
    if not user.startswith(ACCOUNT_PREFIX):
        return [MASTERS, AUTHENTICATED]
    namespace = user[len(ACCOUNT_PREFIX) :].partition(":")[0]
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED]


def _delete_options(request: AdmissionRequest) -> Object:
    sent = request.delete_options or DeleteOptions()
    found: Object = {}
    seconds = _grace_period(request, sent.grace_period_seconds)
    if seconds is not None:
        found["gracePeriodSeconds"] = seconds
    uid = sent.uid
    if uid is None and request.definition.deletion.uid_is_precondition and not request.in_collection:
        uid = request.old["metadata"]["uid"] if request.old is not None else None
    preconditions = {
        name: value
        for name, value in (("uid", uid), ("resourceVersion", sent.resource_version))
        if value is not None
    }
    if preconditions:
        found["preconditions"] = preconditions
    if sent.orphan_dependents is not None:
        found["orphanDependents"] = sent.orphan_dependents
    elif sent.propagation_policy:
        found["propagationPolicy"] = sent.propagation_policy
    return found


def _grace_period(request: AdmissionRequest, sent: int | None) -> int | None:
    """The grace period that the object gets; as the client sent it for a collection, and if the kind has none."""
    if request.in_collection:
        return sent
    wanted = 1 if sent is not None and sent < 0 else sent
    period, old = request.definition.deletion.grace_period, request.old
    if period is None or old is None or "deletionTimestamp" in old["metadata"]:
        return wanted
    return period(old, wanted)


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str | None):
        raise Undecodable(f"{name} must be a string")
    return value or ""


def _allowed(found: dict[str, Any]) -> bool:
    allowed = found.get("allowed") or False
    if not isinstance(allowed, bool):
        raise Undecodable("response.allowed must be true or false")
    return allowed


def _status(found: dict[str, Any]) -> Object:
    status = found.get("status")
    if status is None:
        return {}
    if not isinstance(status, dict):
        raise Undecodable("response.status must be an object")
    code, details = status.get("code") or 0, status.get("details") or {}
    if not isinstance(code, int) or not isinstance(details, dict):
        raise Undecodable(
            "response.status has a code that is not a number, or details that are not an object"
        )
    return {
        "code": code,
        "message": _text(status, "message"),
        "reason": _text(status, "reason"),
        "details": details,
    }


def _patch(found: dict[str, Any]) -> tuple[bytes, str | None]:
    patch_type = found.get("patchType")
    if patch_type is not None:
        patch_type = _text(found, "patchType")
    try:
        return base64.b64decode(_text(found, "patch"), validate=True), patch_type
    except (binascii.Error, ValueError):
        raise Undecodable("response.patch is not base64") from None


def _check_patch(patch: bytes, patch_type: str | None, *, mutating: bool, exact: bool) -> None:
    if not exact:
        return
    if not mutating:
        if patch:
            raise BadResponse("validating webhook may not return response.patch")
        if patch_type is not None:
            raise BadResponse("validating webhook may not return response.patchType")
    elif patch and patch_type is None:
        raise BadResponse("webhook returned response.patch but not response.patchType")
    elif not patch and patch_type is not None:
        raise BadResponse("webhook returned response.patchType but not response.patch")
    elif patch_type is not None and patch_type != JSON_PATCH:
        raise BadResponse(f"webhook returned invalid response.patchType of {quoted(patch_type[:64])}")


def _warnings(found: dict[str, Any]) -> tuple[str, ...]:
    warnings = found.get("warnings") or []
    if not isinstance(warnings, list) or not all(isinstance(one, str) for one in warnings):
        raise Undecodable("response.warnings must be a list of strings")
    return tuple(warnings)


def _annotations(found: dict[str, Any]) -> dict[str, str]:
    annotations = found.get("auditAnnotations") or {}
    if not isinstance(annotations, dict) or not all(isinstance(one, str) for one in annotations.values()):
        raise Undecodable("response.auditAnnotations must be a map of strings")
    return annotations
