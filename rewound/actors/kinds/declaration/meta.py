"""The types of meta/v1 inside objects: ObjectMeta, LabelSelector and Condition; their declarations and their
validation.

`metadata_rules` validate an object, `metadata_update_rules` an update. Kubernetes runs them more than once on an
update (for every object, then again by the kind), so that a response can have the same cause several times; the kinds
here do the same.

A LabelSelector is stored in an object; the label selectors of list requests are text in a query (actors/selectors).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rewound.actors.errors import BadRequest
from rewound.actors.golang.format import Repeated
from rewound.actors.golang.quoting import quoted_list
from rewound.actors.kinds.schema.fields import (
    BOOL,
    FIELDS_V1,
    INT64,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    UNTYPED_BEFORE_1_30,
    Before,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    IMMUTABLE,
    NEGATIVE,
    CheckName,
    FieldError,
    FieldErrors,
    collect,
    collect_with,
    dns_label,
    duplicate,
    explained,
    forbidden,
    invalid,
    label_value,
    not_supported,
    qualified_name,
    required,
    reworded,
    size,
    too_long,
    unchanged,
)
from rewound.actors.messages import Object
from rewound.actors.versions.features import BARE_OWNER_TEXTS, KINDS_OF_OWNERS, SELECTOR_VALUES

MAX_ANNOTATION_BYTES: Final = 256 * 1024
ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
NAMESPACE_FINALIZER: Final = "kubernetes"  # the one finalizer of namespaces, the same in both dialects
STANDARD_FINALIZERS: Final = frozenset((NAMESPACE_FINALIZER, ORPHAN, FOREGROUND))

OWNER_REFERENCE = Struct(
    "meta.v1.OwnerReference",
    Field("apiVersion", STRING, 5, required=True, always=True),
    Field("kind", STRING, 1, required=True, always=True),
    Field("name", STRING, 3, required=True, always=True),
    Field("uid", STRING, 4, required=True, always=True),
    Field("controller", BOOL, 6, pointer=True),
    Field("blockOwnerDeletion", BOOL, 7, pointer=True),
    atomic=True,
)
MANAGED_FIELDS_ENTRY = Struct(
    "meta.v1.ManagedFieldsEntry",
    Field("manager", STRING, 1),
    Field("operation", STRING, 2),
    Field("apiVersion", STRING, 3),
    Field("time", TIME, 4, pointer=True),
    Field("fieldsType", STRING, 6),
    Field("fieldsV1", FIELDS_V1, 7, pointer=True),
    Field("subresource", STRING, 8),
)


def _object_meta(created: Field) -> Struct:
    return Struct(
        "meta.v1.ObjectMeta",
        Field("name", STRING, 1),
        Field("generateName", STRING, 2),
        Field("namespace", STRING, 3),
        Field("selfLink", STRING, 4),
        Field("uid", STRING, 5),
        Field("resourceVersion", STRING, 6),
        Field("generation", INT64, 7),
        created,
        Field("deletionTimestamp", TIME, 9, pointer=True),
        Field("deletionGracePeriodSeconds", INT64, 10, pointer=True),
        Field("labels", STRING_MAP, 11),
        Field("annotations", STRING_MAP, 12),
        Field(
            "ownerReferences",
            ListOf(OWNER_REFERENCE),
            13,
            patch="merge",
            merge_key="uid",
            list_type="map",
            list_keys=("uid",),
            before=UNTYPED_BEFORE_1_30,
        ),
        Field("finalizers", STRINGS, 14, patch="merge", list_type="set", before=UNTYPED_BEFORE_1_30),
        Field(
            "managedFields",
            ListOf(MANAGED_FIELDS_ENTRY),
            17,
            list_type="atomic",
            before=UNTYPED_BEFORE_1_30,
        ),
    )


# For objects, whose creation time the server sets, and for templates in objects, where it is null until 1.33.
OBJECT_META = _object_meta(Field("creationTimestamp", TIME, 8, pointer=True, often_null=True))
TEMPLATE_META = _object_meta(
    Field("creationTimestamp", TIME, 8, pointer=True, before=(Before("1.34", pointer=False),))
)

METADATA = Field("metadata", OBJECT_META, 1)


def check_address(body: Object, namespace: str, name: str | None = None) -> None:
    """Raise BadRequest if the namespace or name in a body is not that of the request path; None: any name may be.

    Many clients always set a namespace: where the path has none, it is dropped.
    """
    metadata = body["metadata"]
    if not namespace:
        metadata.pop("namespace", None)
    elif metadata.get("namespace") and metadata["namespace"] != namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if name is None:
        return
    sent = metadata.get("name", "")
    if not sent:
        raise BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if sent != name:
        raise BadRequest(f"the name of the object ({sent}) does not match the name on the URL ({name})")


def metadata_rules(
    errors: FieldErrors,
    metadata: Object,
    *,
    namespaced: bool,
    check_name: CheckName,
    known_finalizers: bool = True,
) -> None:
    # Most names and namespaces are valid: this quick test comes first, because every write needs it.
    name, namespace = metadata.get("name"), metadata.get("namespace", "")
    if not name or "generateName" in metadata or check_name(name, False):
        _name_rules(errors, metadata, check_name)
    if namespace not in _valid_namespaces or not namespaced:
        _namespace_rules(errors, namespace, namespaced)
    if "generation" in metadata and metadata["generation"] < 0:
        errors.add(invalid("metadata.generation", metadata["generation"], NEGATIVE))
    _common_rules(errors, metadata)
    if "finalizers" in metadata:
        _finalizer_rules(errors, metadata["finalizers"])
        if known_finalizers:
            finalizer_kind_rules(errors, metadata["finalizers"])


def metadata_update_rules(
    errors: FieldErrors, new: Object, old: Object, *, known_finalizers: bool = True
) -> None:
    """Validate an update. The resource version has already been checked."""
    finalizers = new.get("finalizers", ())
    if "deletionTimestamp" in old:
        _no_new_finalizers(errors, finalizers, old.get("finalizers", ()))
    if new.get("generation", 0) < old.get("generation", 0):
        errors.add(invalid("metadata.generation", new.get("generation", 0), "must not be decremented"))
    if [*map(new.get, _IMMUTABLE)] != [*map(old.get, _IMMUTABLE)]:
        _immutable_rules(errors, new, old)
    _common_rules(errors, new)
    if known_finalizers:
        finalizer_kind_rules(errors, finalizers)


_IMMUTABLE: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def _immutable_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    """Validate metadata that differs; an empty text counts as absent."""
    for field in ("name", "namespace", "uid"):
        unchanged(errors, f"metadata.{field}", new.get(field, ""), old.get(field, ""))
    for field in ("creationTimestamp", "deletionTimestamp"):
        _same_time(errors, f"metadata.{field}", new.get(field), old.get(field))
    grace = "deletionGracePeriodSeconds"
    unchanged(errors, f"metadata.{grace}", new.get(grace), old.get(grace))


def finalizer_rules(errors: FieldErrors, name: str, field: str) -> None:
    """A finalizer name must be qualified or one of the standard ones."""
    errors.add_each(field, name, qualified_name(name))
    _known_or_qualified(errors, name, field)


def finalizer_kind_rules(errors: FieldErrors, finalizers: Sequence[str]) -> None:
    for index, name in enumerate(finalizers):
        _known_or_qualified(errors, name, f"metadata.finalizers[{index}]")


def label_rules(errors: FieldErrors, labels: Mapping[str, str], field: str) -> None:
    if labels.items() <= _known_labels or labels is _large_and_valid.labels:
        return
    before = len(errors.found)
    for key, value in labels.items():
        if (key, value) in _known_labels:
            continue
        wrong_key, wrong_value = qualified_name(key), label_value(value)
        if wrong_key or wrong_value:
            errors.add_each(field, key, wrong_key)
            errors.add_each(field, value, wrong_value)
        else:
            _cache_label(key, value)
    if len(labels) > LARGE_MAP and len(errors.found) == before:
        _large_and_valid.labels = labels


LARGE_MAP: Final = 256


class _ValidLargeMaps:
    """The last large maps that were found valid: an update validates its metadata up to four times."""

    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None


_large_and_valid = _ValidLargeMaps()

# Labels that were found valid: a cluster has few different ones and writes them again and again.
_known_labels: set[tuple[str, str]] = set()
KNOWN_LABELS = 4096


def _cache_label(key: str, value: str) -> None:
    if len(_known_labels) >= KNOWN_LABELS:
        _known_labels.clear()
    _known_labels.add((key, value))


def annotation_rules(errors: FieldErrors, annotations: Mapping[str, str], field: str) -> None:
    """Keys as in labels, but case-insensitive; any values, up to a total size."""
    if annotations is _large_and_valid.annotations:
        return
    total, before = 0, len(errors.found)
    for key, value in annotations.items():
        errors.add_each(field, key, qualified_name(key.lower()))
        total += size(key) + size(value)
        if total > MAX_ANNOTATION_BYTES:  # the remaining errors are not needed
            errors.add(too_long(field, MAX_ANNOTATION_BYTES))
            return
    if len(annotations) > LARGE_MAP and len(errors.found) == before:
        _large_and_valid.annotations = annotations


def _common_rules(errors: FieldErrors, metadata: Object) -> None:
    if metadata is errors.valid_metadata:
        return
    if "labels" in metadata and not metadata["labels"].items() <= _known_labels:
        label_rules(errors, metadata["labels"], "metadata.labels")
    if "annotations" in metadata:
        annotation_rules(errors, metadata["annotations"], "metadata.annotations")
    if "ownerReferences" in metadata:
        _owner_rules(errors, metadata["ownerReferences"])


def _name_rules(errors: FieldErrors, metadata: Object, check_name: CheckName) -> None:
    if prefix := metadata.get("generateName"):
        errors.add_each("metadata.generateName", prefix, check_name(prefix, True))
    name = metadata.get("name", "")
    if not name:
        errors.add(required("metadata.name", "name or generateName is required"))
    elif wrong := check_name(name, False):
        errors.add_each("metadata.name", name, wrong)


def _namespace_rules(errors: FieldErrors, namespace: str, namespaced: bool) -> None:
    if not namespaced:
        if namespace:
            errors.add(forbidden("metadata.namespace", "not allowed on this type"))
        return
    if not namespace:
        errors.add(required("metadata.namespace"))
    elif wrong := dns_label(namespace):
        errors.add_each("metadata.namespace", namespace, wrong)
    else:
        if len(_valid_namespaces) >= VALID_NAMESPACES:
            _valid_namespaces.clear()
        _valid_namespaces.add(namespace)


# Names of namespaces that were found valid.
_valid_namespaces: set[str] = set()
VALID_NAMESPACES: Final = 1024


def _owner_rules(errors: FieldErrors, owners: Sequence[Object]) -> None:
    field = "metadata.ownerReferences"
    controller, all_owners = "", Repeated(lambda: list(owners))
    for owner in owners:
        _one_owner_rules(errors, owner, field)
        if not owner.get("controller"):
            continue
        name = f"{owner['kind']}/{owner['name']}" if KINDS_OF_OWNERS in errors.features else owner["name"]
        if controller:
            text = (
                "Only one reference can have Controller set to true. "
                f'Found "true" in references for {controller} and {name}'
            )
            errors.add(invalid(field, all_owners, text))
        else:
            controller = name


def _one_owner_rules(errors: FieldErrors, owner: Object, field: str) -> None:
    version = owner["apiVersion"].rpartition("/")[2] if owner["apiVersion"].count("/") < 2 else ""
    if not version:
        errors.add(invalid(f"{field}.apiVersion", owner["apiVersion"], "version must not be empty"))
    for part in ("kind", "name", "uid"):
        if not owner[part]:
            text = reworded(f"{part} must not be empty", BARE_OWNER_TEXTS, "must not be empty")
            errors.add(invalid(f"{field}.{part}", "", text))
    if owner["apiVersion"] == "v1" and owner["kind"] == "Event":
        errors.add(
            invalid(field, shown(OWNER_REFERENCE, owner), "/v1, Kind=Event is disallowed from being an owner")
        )


def _finalizer_rules(errors: FieldErrors, finalizers: Sequence[str]) -> None:
    field = "metadata.finalizers"
    for name in finalizers:
        errors.add_each(field, name, qualified_name(name))
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        text = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        errors.add(invalid(field, list(finalizers), text))


def _known_or_qualified(errors: FieldErrors, name: str, field: str) -> None:
    if "/" not in name and name not in STANDARD_FINALIZERS:
        errors.add(
            invalid(field, name, "name is neither a standard finalizer name nor is it fully qualified")
        )


def _same_time(errors: FieldErrors, field: str, new: str | None, old: str | None) -> None:
    """Like any other immutable field, but these messages format times in their own way."""
    if new == old:
        return
    shown = f"{new[:10]} {new[11:19]} +0000 UTC" if new else '"null"'
    errors.add(FieldError("FieldValueInvalid", field, f"Invalid value: {shown}: {IMMUTABLE}"))


def _no_new_finalizers(errors: FieldErrors, new: Sequence[str], old: Sequence[str]) -> None:
    added = sorted(set(new) - set(old))
    if not added:
        return
    listed = quoted_list(added)
    text = (
        "no new finalizers can be added if the object is being deleted, "
        f"found new finalizers []string{{{listed}}}"
    )
    errors.add(forbidden("metadata.finalizers", text))


def value_at_path(stored: Object, *path: str) -> Any:
    """Return the value at a path, or None if there is none."""
    value: Any = stored
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


LABEL_SELECTOR_REQUIREMENT = Struct(
    "meta.v1.LabelSelectorRequirement",
    Field(
        "key",
        STRING,
        1,
        required=True,
        always=True,
        before=(Before("1.28", merge_key="key", patch="merge"),),
    ),
    Field("operator", STRING, 2, required=True, always=True),
    Field("values", STRINGS, 3, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
LABEL_SELECTOR = Struct(
    "meta.v1.LabelSelector",
    Field("matchLabels", STRING_MAP, 1),
    Field(
        "matchExpressions",
        ListOf(LABEL_SELECTOR_REQUIREMENT),
        2,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    atomic=True,
)

NEEDS_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
TAKES_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
NO_OPERATOR: Final = "not a valid selector operator"


def label_selector_rules(
    errors: FieldErrors, selector: Object | None, field: str, before: Object | None = None
) -> None:
    """Validate a selector; values that no label can have may stay if the selector was invalid `before`."""
    if not selector:
        return
    label_rules(errors, selector.get("matchLabels", {}), f"{field}.matchLabels")
    checks_values = SELECTOR_VALUES in errors.features
    if checks_values and before and selector.get("matchExpressions"):
        checks_values = not collect_with(errors.features, label_selector_rules, before, field)
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        requirement_rules(errors, requirement, f"{field}.matchExpressions[{index}]", checks_values)


def requirement_rules(
    errors: FieldErrors, requirement: Object, field: str, checks_values: bool = False
) -> None:
    operator, key, values = requirement["operator"], requirement["key"], requirement.get("values")
    if operator in ("In", "NotIn"):
        if not values:
            errors.add(required(f"{field}.values", NEEDS_VALUES))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.add(forbidden(f"{field}.values", TAKES_NO_VALUES))
    else:
        errors.add(invalid(f"{field}.operator", operator, NO_OPERATOR))
    if checks_values:
        for index, value in enumerate(values or ()):
            errors.add_each(f"{field}.values[{index}]", value, label_value(value))
    errors.add_each(f"{field}.key", key, qualified_name(key))


def label_selector_compiles(selector: Object) -> bool:
    """Whether labels can be matched against it: stricter than its rules, which do not check values."""
    values = [value for one in selector.get("matchExpressions", ()) for value in one.get("values", ())]
    return not collect(label_selector_rules, selector, "") and not any(label_value(value) for value in values)


def label_selector_matches(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether the selector matches the labels; an empty one matches all."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(_requirement_is_met(one, labels) for one in selector.get("matchExpressions", ()))


def _requirement_is_met(requirement: Object, labels: Mapping[str, str]) -> bool:
    key, operator, values = requirement["key"], requirement["operator"], requirement.get("values", ())
    if operator == "In":
        return bool(labels.get(key) in values)
    if operator == "NotIn":
        return bool(labels.get(key) not in values)
    return (key in labels) is (operator == "Exists")


class LabelMatcher:
    """A label selector for many objects: the cost depends on the labels of the object, however long the selector is."""

    __slots__ = ("_absent", "_allowed", "_present", "_refused")

    def __init__(self, selector: Object) -> None:
        self._allowed: dict[str, set[str]] = {}  # label -> the values that are allowed
        self._refused: dict[str, set[str]] = {}
        self._present: set[str] = set()
        self._absent: set[str] = set()
        for key, value in selector.get("matchLabels", {}).items():
            self._allow(key, {value})
        for one in selector.get("matchExpressions", ()):
            self._add(one["key"], one["operator"], set(one.get("values", ())))

    def _add(self, key: str, operator: str, values: set[str]) -> None:
        if operator == "In":
            self._allow(key, values)
        elif operator == "NotIn":
            self._refused.setdefault(key, set()).update(values)
        else:
            (self._present if operator == "Exists" else self._absent).add(key)

    def _allow(self, key: str, values: set[str]) -> None:
        known = self._allowed.get(key)
        self._allowed[key] = values if known is None else known & values

    def matches(self, labels: Mapping[str, str]) -> bool:
        if max(len(self._allowed), len(self._present)) > len(labels):
            return False
        if not self._present <= labels.keys():
            return False
        if any(labels.get(key) not in values for key, values in self._allowed.items()):
            return False
        return not any(
            key in self._absent or value in self._refused.get(key, ()) for key, value in labels.items()
        )


LONGEST_CONDITION_REASON: Final = 1024
LONGEST_CONDITION_MESSAGE: Final = 32 * 1024
CONDITION_STATUSES: Final = ("False", "True", "Unknown")

CONDITION = Struct(
    "meta.v1.Condition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 2, required=True, always=True),
    Field("observedGeneration", INT64, 3),
    Field("lastTransitionTime", TIME, 4, required=True, always=True),
    Field("reason", STRING, 5, required=True, always=True),
    Field("message", STRING, 6, required=True, always=True),
)

_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_is_reason = re.compile(_REASON).fullmatch


def condition_rules(errors: FieldErrors, conditions: Sequence[Object], field: str) -> None:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        if condition["type"] in seen:
            errors.add(duplicate(f"{field}[{index}].type", condition["type"]))
        seen.add(condition["type"])
        _one_condition_rules(errors, condition, f"{field}[{index}]")


def _one_condition_rules(errors: FieldErrors, condition: Object, field: str) -> None:
    errors.add_each(f"{field}.type", condition["type"], qualified_name(condition["type"]))
    if condition["status"] not in CONDITION_STATUSES:
        errors.add(not_supported(f"{field}.status", condition["status"], CONDITION_STATUSES))
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        errors.add(
            invalid(f"{field}.observedGeneration", generation, "must be greater than or equal to zero")
        )
    if condition["lastTransitionTime"] is None:
        errors.add(required(f"{field}.lastTransitionTime", "must be set"))
    _condition_reason_rules(errors, condition["reason"], f"{field}.reason")
    if size(condition["message"]) > LONGEST_CONDITION_MESSAGE:
        errors.add(too_long(f"{field}.message", LONGEST_CONDITION_MESSAGE))


def _condition_reason_rules(errors: FieldErrors, reason: str, field: str) -> None:
    if not reason:
        errors.add(required(field, "must be set"))
        return
    if not _is_reason(reason):
        text = (
            "a condition reason must start with alphabetic character, optionally followed by a string of "
            "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
        )
        examples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
        errors.add(invalid(field, reason, explained(text, _REASON, *examples)))
    if size(reason) > LONGEST_CONDITION_REASON:
        errors.add(too_long(field, LONGEST_CONDITION_REASON))
