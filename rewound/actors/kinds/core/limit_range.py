"""LimitRange: limits and default requests for each container, pod or claim of a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from rewound.actors.kinds.core.resources import (
    HUGE_PAGES,
    container_name_rules,
    is_native,
    resource_name_rules,
    round_up,
)
from rewound.actors.kinds.declaration.definition import Definition, DiscoveryNames, Strategy
from rewound.actors.kinds.declaration.meta import METADATA, metadata_rules
from rewound.actors.kinds.schema.fields import QUANTITIES, STRING, UNTYPED_BEFORE_1_30, Field, ListOf, Struct
from rewound.actors.kinds.validation import (
    FieldErrors,
    duplicate,
    forbidden,
    invalid,
    name_is_subdomain,
    qualified_name,
    required,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.quantity import NANOS, nanos_of

TYPES: Final = ("Container", "PersistentVolumeClaim", "Pod")
AMOUNTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")

ITEM = Struct(
    "core.v1.LimitRangeItem",
    Field("type", STRING, 1, required=True, always=True),
    Field("max", QUANTITIES, 2),
    Field("min", QUANTITIES, 3),
    Field("default", QUANTITIES, 4),
    Field("defaultRequest", QUANTITIES, 5),
    Field("maxLimitRequestRatio", QUANTITIES, 6),
)
SPEC = Struct(
    "core.v1.LimitRangeSpec",
    Field(
        "limits",
        ListOf(ITEM),
        1,
        required=True,
        always=True,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
)
LIMIT_RANGE = Struct("core.v1.LimitRange", METADATA, Field("spec", SPEC, 2))

Amounts = Mapping[str, str]


def define(names: Names) -> Definition:
    api_domain = names.key("")
    return Definition(
        group="",
        version="v1",
        kind="LimitRange",
        plural="limitranges",
        names=DiscoveryNames(short_names=("limits",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=LIMIT_RANGE,
        set_defaults=set_defaults,
        strategy=Strategy(
            allow_create_on_update=True,
            prepare_for_create=prepare_create,
            validate_create=partial(rules, api_domain=api_domain),
            validate_update=partial(update_rules, api_domain=api_domain),
        ),
    )


def set_defaults(new: Object) -> None:
    limits = new["spec"]["limits"] or []
    for index, item in enumerate(limits):
        limits[index] = _with_defaults(item) if item["type"] == "Container" else item
        for part in AMOUNTS:
            round_up(limits[index].get(part, {}))


def _with_defaults(item: Object) -> Object:
    """Limits default to the maximum; requests default to the limits, or else to the minimum."""
    limit = {**item.get("max", {}), **item.get("default", {})}
    request = {**item.get("min", {}), **limit, **item.get("defaultRequest", {})}
    whole = {**item, "default": dict(sorted(limit.items())), "defaultRequest": dict(sorted(request.items()))}
    return ITEM.arranged({part: value for part, value in whole.items() if value})


def prepare_create(new: Object) -> None:
    """LimitRange is the only kind whose objects need no name."""
    metadata = new["metadata"]
    if not metadata.get("name"):
        metadata["name"] = metadata["uid"]


def update_rules(errors: FieldErrors, new: Object, _: Object, *, api_domain: str) -> None:
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    rules(errors, new, api_domain=api_domain)


def rules(errors: FieldErrors, new: Object, *, api_domain: str) -> None:
    seen: set[str] = set()
    for index, item in enumerate(new["spec"]["limits"] or ()):
        field = f"spec.limits[{index}]"
        _type_rules(errors, item["type"], f"{field}.type")
        if item["type"] in seen:
            errors.add(duplicate(f"{field}.type", item["type"]))
        seen.add(item["type"])
        _name_rules(errors, item, field, api_domain)
        _relation_rules(errors, item, field, api_domain)


def _type_rules(errors: FieldErrors, kind: str, field: str) -> None:
    wrong = qualified_name(kind)
    errors.add_each(field, kind, wrong)
    if not wrong and "/" not in kind and kind not in TYPES:
        errors.add(invalid(field, kind, "must be a standard limit type or fully qualified"))


def _name_rules(errors: FieldErrors, item: Object, field: str, api_domain: str) -> None:
    kind = item["type"]
    for part in AMOUNTS:
        if kind == "Pod" and part in ("default", "defaultRequest"):
            text = "may not be specified when `type` is 'Pod'"
            if part in item:
                errors.add(forbidden(f"{field}.{part}", text))
            continue
        if part == "maxLimitRequestRatio":
            _claim_storage_rules(errors, item, field)
        for name in item.get(part, ()):
            here = f"{field}.{part}[{name}]"
            contained = kind in ("Pod", "Container")
            if contained:
                container_name_rules(errors, name, here, api_domain)
            else:
                resource_name_rules(errors, name, here)


def _claim_storage_rules(errors: FieldErrors, item: Object, field: str) -> None:
    if item["type"] != "PersistentVolumeClaim" or "storage" in {**item.get("min", {}), **item.get("max", {})}:
        return
    text = "either minimum or maximum storage value is required, but neither was provided"
    errors.add(required(f"{field}.limits", text))


def _relation_rules(errors: FieldErrors, item: Object, field: str, api_domain: str) -> None:
    parts = [part for part in AMOUNTS if not (item["type"] == "Pod" and part.startswith("default"))]
    names = sorted({name for part in parts for name in item.get(part, ())})
    for name in names:
        amounts = {part: item[part][name] for part in parts if name in item.get(part, ())}
        _order_rules(errors, amounts, name, field)
        _ratio_rules(errors, amounts, name, field)
        _overcommit_rules(errors, amounts, name, field, api_domain)


# Ordered pairs: the smaller part, the larger part, the part that the error names, and the text.
_IN_ORDER: Final = (
    ("min", "max", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "default value {} is greater than max value {}"),
)


def _order_rules(errors: FieldErrors, amounts: Amounts, name: str, field: str) -> None:
    for less, more, part, text in _IN_ORDER:
        if less in amounts and more in amounts and nanos_of(amounts[less]) > nanos_of(amounts[more]):
            detail = text.format(amounts[less], amounts[more])
            # About a default, Kubernetes shows the bound that it breaks.
            shown = amounts[part] if part != "default" else amounts[more if less == "default" else less]
            errors.add(invalid(f"{field}.{part}[{name}]", shown, detail))


def _ratio_rules(errors: FieldErrors, amounts: Amounts, name: str, field: str) -> None:
    if "maxLimitRequestRatio" not in amounts:
        return
    ratio, here = amounts["maxLimitRequestRatio"], f"{field}.maxLimitRequestRatio[{name}]"
    if nanos_of(ratio) < NANOS:
        errors.add(invalid(here, ratio, f"ratio {ratio} is less than 1"))
    low, high = (nanos_of(amounts.get(part, "0")) for part in ("min", "max"))
    if "min" in amounts and "max" in amounts and low and nanos_of(ratio) / NANOS > high / low:
        text = f"ratio {ratio} is greater than max/min = {high / low:f}"
        errors.add(invalid(here, ratio, text))


def _overcommit_rules(errors: FieldErrors, amounts: Amounts, name: str, field: str, api_domain: str) -> None:
    """Resources that cannot be overcommitted need equal requests and limits."""
    if is_native(name, api_domain) and not name.startswith(HUGE_PAGES):
        return
    limit, request = amounts.get("default"), amounts.get("defaultRequest")
    if limit is None or request is None or nanos_of(limit) == nanos_of(request):
        return
    text = f"default value {limit} must equal to defaultRequest value {request} in {name}"
    errors.add(invalid(f"{field}.defaultRequest[{name}]", request, text))
