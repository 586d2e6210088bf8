"""Parses and validates the options of lists, writes, patches and deletes.

Dispatch calls these pure functions with the query parameters (or the body of a DELETE) and gets parsed options, or an
error that names every wrong option. Each rule is written once, so that creates, updates and deletes refuse the same
value with the same text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from rewound.actors.errors import BadRequest, Invalid
from rewound.actors.golang.format import format_value
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.schema.scalars import json_type_of
from rewound.actors.kinds.validation import (
    FieldError,
    FieldErrors,
    collect_with,
    forbidden,
    invalid,
    not_supported,
    required,
    size,
    too_long,
)
from rewound.actors.messages import DeleteOptions
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules
from rewound.actors.versions.features import INITIAL_EVENTS, UNSAFE_DELETES, WATCH_LIST

MANAGER_BYTES = 128  # limit of the name of a field manager

_NOT_OLDER_THAN = "NotOlderThan"
_MATCHES = ("Exact", _NOT_OLDER_THAN, "")
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_PROPAGATIONS = ("Foreground", "Background", "Orphan")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_INT64 = 1 << 63
# Enough to recognise a bad value; the length of a message does not grow with the request.
_QUOTED = 64


class WriteOptions(msgspec.Struct, frozen=True):
    dry_run: bool = False
    field_validation: str = "Warn"  # or "Ignore", "Strict"
    force: bool = False  # server-side apply only


PLAIN_WRITE = WriteOptions()


def integer(name: str, text: str) -> int:
    """The value of an integer option; an empty one is an error, not zero."""
    if _INTEGER.fullmatch(text) and -_INT64 <= (value := int(text)) < _INT64:
        return value
    sent = text if len(text) <= _QUOTED else text[:_QUOTED] + "..."
    raise BadRequest(f"{name}: Invalid value: {quoted_start(sent)}: must be a 64-bit integer")


def boolean(text: str) -> bool:
    """True for every value except "false" and "0", also for the empty value of `?watch`."""
    return text.lower() not in ("false", "0")


def list_options(
    names: Names,
    resource_version: str,
    match: str,
    token: str,
    *,
    watch: bool = False,
    initial_events: bool | None = None,
    features: frozenset[str] = frozenset(),
) -> None:
    """Raise if resourceVersion, resourceVersionMatch, sendInitialEvents and continue token do not fit together.

    A limit fits every combination. A watch has no pages: it ignores limit and token. Versions that do not know
    sendInitialEvents ignore it.
    """
    watch_list = WATCH_LIST in features
    knows_initial_events = watch_list or INITIAL_EVENTS in features
    if watch and knows_initial_events and (match or initial_events is not None):
        errors = collect_with(features, _validate_initial_events, match, token, initial_events, watch_list)
        _raise_invalid(names, "ListOptions", errors)
        return
    errors = collect_with(features, _validate_match, resource_version, match, token, watch) if match else []
    if knows_initial_events and not watch and initial_events is not None:
        errors = [*errors, forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")]
    _raise_invalid(names, "ListOptions", errors)
    if token and not watch and resource_version not in ("", "0"):
        raise BadRequest("specifying resource version is not allowed when using continue")


def _validate_initial_events(
    errors: FieldErrors, match: str, token: str, initial_events: bool | None, watch_list: bool
) -> None:
    name = "resourceVersionMatch"
    if initial_events is not None and match != _NOT_OLDER_THAN:
        errors.add(forbidden(name, f"sendInitialEvents requires setting {name} to {_NOT_OLDER_THAN}"))
    if initial_events is not None and not watch_list:
        why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        errors.add(forbidden("sendInitialEvents", why))
    if not match:
        return
    if initial_events is None:
        errors.add(forbidden(name, f"{name} is forbidden for watch unless sendInitialEvents is provided"))
    if match != _NOT_OLDER_THAN:
        errors.add(not_supported(name, match, (_NOT_OLDER_THAN,)))
    if token:
        errors.add(forbidden(name, f"{name} is forbidden when continue is provided"))


def _validate_match(errors: FieldErrors, resource_version: str, match: str, token: str, watch: bool) -> None:
    refused = [
        (watch, "resourceVersionMatch is forbidden for watch"),
        (not resource_version, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        (bool(token), "resourceVersionMatch is forbidden when continue is provided"),
    ]
    for broken, why in refused:
        if broken:
            errors.add(forbidden("resourceVersionMatch", why))
    if match not in _MATCHES:
        errors.add(not_supported("resourceVersionMatch", match, _MATCHES))
    elif match == "Exact" and resource_version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        errors.add(forbidden("resourceVersionMatch", why))


def write_options(
    names: Names,
    kind: str,
    dry_run: Sequence[str],
    field_validation: str,
    field_manager: str,
    rules: Rules = DOCUMENTED,
    features: frozenset[str] = frozenset(),
) -> WriteOptions:
    """`kind` (CreateOptions, UpdateOptions) is the kind that an error names as invalid."""
    errors = collect_with(features, _validate_write, dry_run, field_validation, field_manager, rules)
    _raise_invalid(names, kind, errors)
    return WriteOptions("All" in dry_run, field_validation or "Warn")


def patch_options(
    names: Names,
    dry_run: Sequence[str],
    field_validation: str,
    field_manager: str,
    force: str | None,
    *,
    applies: bool,
    rules: Rules = DOCUMENTED,
    features: frozenset[str] = frozenset(),
) -> WriteOptions:
    """Options of a patch. A server-side apply requires a field manager and may be forced; others may not."""
    errors = collect_with(
        features, _validate_patch, dry_run, field_validation, field_manager, force, applies, rules
    )
    _raise_invalid(names, "PatchOptions", errors)
    forced = force is not None and boolean(force)
    return WriteOptions("All" in dry_run, field_validation or "Warn", forced)


def _validate_patch(
    errors: FieldErrors,
    dry_run: Sequence[str],
    field_validation: str,
    field_manager: str,
    force: str | None,
    applies: bool,
    rules: Rules,
) -> None:
    if force is not None and not applies:
        errors.add(forbidden("force", "may not be specified for non-apply patch"))
    if applies and not field_manager:
        errors.add(required("fieldManager", "is required for apply patch"))
    _validate_write(errors, dry_run, field_validation, field_manager, rules)


def _validate_write(
    errors: FieldErrors, dry_run: Sequence[str], field_validation: str, field_manager: str, rules: Rules
) -> None:
    _validate_manager(errors, field_manager)
    _validate_dry_run(errors, dry_run, rules)
    if field_validation not in _VALIDATIONS:
        errors.add(not_supported("fieldValidation", field_validation, _VALIDATIONS))


def _validate_manager(errors: FieldErrors, manager: str) -> None:
    if size(manager) > MANAGER_BYTES:
        errors.add(too_long("fieldManager", MANAGER_BYTES))
    if manager.isprintable():
        return
    position = 0
    for letter in manager:
        if not letter.isprintable():
            why = f"invalid character U+{ord(letter):04X} (at position {position})"
            errors.add(invalid("fieldManager", manager, why))
        position += size(letter)


def _validate_dry_run(errors: FieldErrors, values: Sequence[str], rules: Rules) -> None:
    """`?dryRun` without a value has the value "" and means a persisted write, where that is accepted."""
    allowed = ("", "All") if rules.bare_dry_run == "write" else ("All",)
    if all(value in allowed for value in values):
        return
    text = f'Unsupported value: {format_value(list(values))}: supported values: "All"'
    errors.add(FieldError("FieldValueNotSupported", "dryRun", text))


def _raise_invalid(names: Names, kind: str, errors: Sequence[FieldError]) -> None:
    if errors:
        raise Invalid(names.group("meta"), kind, "", [error.cause() for error in errors])


UNSAFE: Final = "ignoreStoreReadErrorWithClusterBreakingPotential"


def ignores_read_errors(
    body: Mapping[str, Any] | None, query: Mapping[str, Sequence[str]], features: frozenset[str]
) -> bool:
    """Whether the delete asks to remove an object that cannot be read."""
    if UNSAFE_DELETES not in features:
        return False
    sent = _parameters_in_query(query) if body is None else _parameters_in_body(body)
    return bool(sent.unsafe)


def orphan_dependents(body: Mapping[str, Any] | None, query: Mapping[str, Sequence[str]]) -> bool | None:
    """The deprecated option orphanDependents of the body or query, as in `delete_options`; None if absent."""
    return _parameters_in_query(query).orphan if body is None else _parameters_in_body(body).orphan


_DELETE_PARAMETERS: Final = (
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "uid",
    "resourceVersion",
    UNSAFE,
)


class _DeleteParameters(msgspec.Struct, frozen=True):
    """The options of a delete as the client sent them; None for absent ones."""

    grace: int | None
    policy: str | None
    orphan: bool | None
    uid: str | None
    version: str | None
    dry_run: tuple[str, ...]
    unsafe: bool | None = None


def delete_options(
    names: Names,
    body: Mapping[str, Any] | None,
    query: Mapping[str, Sequence[str]],
    *,
    many: bool = False,
    rules: Rules = DOCUMENTED,
    features: frozenset[str] = frozenset(),
) -> DeleteOptions:
    """Options come from the body or, without one, from the query; `dryRun` counts in both, unless a rule differs.

    As in Kubernetes, a body hides the query. But ignoring `?dryRun=All` because of a body would delete what the client
    only wanted to test. For deletecollection (`many`), a resourceVersion in the query belongs to the list.
    """
    if body is None:
        sent = _parameters_in_query(query)
        sent = replace(sent, version=None) if many else sent
    else:
        sent = _parameters_in_body(body)
        if rules.delete_dry_run == "query-or-body":
            sent = replace(sent, dry_run=(*sent.dry_run, *query.get("dryRun", ())))
    if UNSAFE_DELETES not in features:
        sent = replace(sent, unsafe=None)
    _raise_invalid(names, "DeleteOptions", collect_with(features, _validate_delete, sent, rules))
    if sent.unsafe and many:
        why = "is not allowed with DELETECOLLECTION, try again after removing the option"
        _raise_invalid(names, "DeleteOptions", [invalid(UNSAFE, True, why)])
    policy = sent.policy or ""
    if sent.orphan is not None:
        policy = "Orphan" if sent.orphan else "Background"
    return DeleteOptions(sent.grace, policy, sent.uid, sent.version, "All" in sent.dry_run, sent.orphan)


def delete_options_document(names: Names, body: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a body as audit events show them: decoded, in the version that Kubernetes decodes them to."""
    sent = _parameters_in_body(body)
    preconditions = {"uid": sent.uid, "resourceVersion": sent.version}
    found = {
        "gracePeriodSeconds": sent.grace,
        "preconditions": {name: value for name, value in preconditions.items() if value is not None} or None,
        "orphanDependents": sent.orphan,
        "propagationPolicy": sent.policy,
        "dryRun": sent.dry_run or None,
    }
    return {
        "kind": "DeleteOptions",
        "apiVersion": f"{names.group('meta')}/__internal",
        **{name: value for name, value in found.items() if value is not None},
    }


def _validate_delete(errors: FieldErrors, sent: _DeleteParameters, rules: Rules) -> None:
    if sent.policy is not None and sent.orphan is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        errors.add(invalid("propagationPolicy", sent.policy, why))
    if sent.policy is not None and sent.policy not in _PROPAGATIONS:
        errors.add(not_supported("propagationPolicy", sent.policy, (*_PROPAGATIONS, "nil")))
    _validate_dry_run(errors, sent.dry_run, rules)
    if sent.unsafe:
        others = {
            "dryRun": sent.dry_run or None,
            "propagationPolicy": sent.policy,
            "orphanDependents": sent.orphan,
            "gracePeriodSeconds": sent.grace,
            "preconditions": sent.uid if sent.version is None else sent.version,
        }
        for name, value in others.items():
            if value is not None:
                errors.add(invalid(UNSAFE, True, f"cannot be set together with .{name}"))


def _parameters_in_query(query: Mapping[str, Sequence[str]]) -> _DeleteParameters:
    grace, policy, orphan, uid, version, unsafe = (
        query[name][0] if query.get(name) else None for name in _DELETE_PARAMETERS
    )
    return _DeleteParameters(
        grace=None if grace is None else integer("gracePeriodSeconds", grace),
        policy=policy,
        orphan=None if orphan is None else boolean(orphan),
        uid=uid or None,
        version=version or None,
        dry_run=tuple(query.get("dryRun", ())),
        unsafe=None if unsafe is None else boolean(unsafe),
    )


def _parameters_in_body(body: Mapping[str, Any]) -> _DeleteParameters:
    if body.get("kind") not in (None, "", "DeleteOptions"):
        version, place = body.get("apiVersion") or "v1", "meta/internalversion/scheme/register.go:27"
        kind = f"no kind {format_value(body['kind'])} is registered for version {format_value(version)}"
        raise BadRequest(f'{kind} in scheme "k8s.io/apimachinery/pkg/apis/{place}"')
    _take(body, "apiVersion", str, "string")
    grace = _take(body, "gracePeriodSeconds", int, "int64")
    if grace is not None and not -_INT64 <= grace < _INT64:
        raise _wrong_type("gracePeriodSeconds", "int64", f"number {grace}")
    preconditions = _take(body, "preconditions", dict, "v1.Preconditions") or {}
    return _DeleteParameters(
        grace=grace,
        policy=_take(body, "propagationPolicy", str, "v1.DeletionPropagation"),
        orphan=_take(body, "orphanDependents", bool, "bool"),
        uid=_take(preconditions, "uid", str, "types.UID", "preconditions."),
        version=_take(preconditions, "resourceVersion", str, "string", "preconditions."),
        dry_run=_dry_run_in(body),
        unsafe=_take(body, UNSAFE, bool, "bool"),
    )


def _dry_run_in(body: Mapping[str, Any]) -> tuple[str, ...]:
    values = _take(body, "dryRun", list, "[]string") or []
    return tuple(_take({"dryRun": value}, "dryRun", str, "string") or "" for value in values)


def _take(options: Mapping[str, Any], name: str, wanted: type, go_type: str, prefix: str = "") -> Any:
    value = options.get(name)
    # In Python, a bool is an int; in JSON it is not.
    if value is None or (isinstance(value, wanted) and isinstance(value, bool) == (wanted is bool)):
        return value
    found = json_type_of(value)
    if found == "number" and wanted is int:
        found = f"number {value}"
    raise _wrong_type(prefix + name, go_type, found)


def _wrong_type(field: str, go_type: str, found: str) -> BadRequest:
    struct = "Preconditions" if "." in field else "DeleteOptions"
    where = f"Go struct field {struct}.{field}"
    return BadRequest(f"json: cannot unmarshal {found} into {where} of type {go_type}")
