"""Resource requirements: which resources containers may request, and the rules of their names and amounts.

A name without a domain is the API's own, and so is one under its domain; all others are extended resources, which are
counted in whole units and cannot be overcommitted. `api_domain` is the API's domain with a slash, in the dialect of
the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from rewound.actors.kinds.schema.fields import QUANTITIES, STRING, Field, ListOf, Struct
from rewound.actors.kinds.validation import (
    NEGATIVE,
    FieldErrors,
    forbidden,
    invalid,
    qualified_name,
    required,
)
from rewound.actors.kinds.values.quantity import NANOS, NotAQuantity, is_count, nanos_of, rounded_to
from rewound.actors.messages import Object

RESOURCE_CLAIM = Struct(
    "core.v1.ResourceClaim",
    Field("name", STRING, 1, required=True, always=True),
    Field("request", STRING, 2, since="1.31"),
)
RESOURCE_REQUIREMENTS = Struct(
    "core.v1.ResourceRequirements",
    Field("limits", QUANTITIES, 1),
    Field("requests", QUANTITIES, 2),
    Field(
        "claims",
        ListOf(RESOURCE_CLAIM),
        3,
        list_type="map",
        list_keys=("name",),
        since="1.26",
        gate="DynamicResourceAllocation",
    ),
)

HUGE_PAGES: Final = "hugepages-"
STANDARD_CONTAINER_RESOURCES: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
INTEGER_RESOURCES: Final = frozenset(
    (
        *("pods", "resourcequotas", "services", "services.nodeports", "services.loadbalancers"),
        *("replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims"),
    )
)
STANDARD_RESOURCES: Final = (
    STANDARD_CONTAINER_RESOURCES
    | INTEGER_RESOURCES
    | {"storage", "requests.storage"}
    | {f"{what}.{name}" for what in ("requests", "limits") for name in STANDARD_CONTAINER_RESOURCES}
)
NOT_AN_INTEGER: Final = "must be an integer"

# Containers and pods repeat the same amounts.
nanos = lru_cache(maxsize=1024)(nanos_of)


def is_native(name: str, api_domain: str) -> bool:
    return "/" not in name or api_domain in name


def is_extended(name: str, api_domain: str) -> bool:
    if is_native(name, api_domain) or name.startswith("requests."):
        return False
    return not qualified_name(f"requests.{name}")


def resource_name_rules(errors: FieldErrors, name: str, field: str) -> None:
    wrong = qualified_name(name)
    errors.add_each(field, name, wrong)
    if (
        wrong
        or "/" in name
        or name in STANDARD_RESOURCES
        or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}"))
    ):
        return
    errors.add(invalid(field, name, "must be a standard resource type or fully qualified"))


def amount_rules(errors: FieldErrors, name: str, amount: str, field: str, api_domain: str) -> None:
    if amount.startswith("-"):
        errors.add(invalid(field, amount, NEGATIVE))
    if (name in INTEGER_RESOURCES or is_extended(name, api_domain)) and not is_count(amount):
        errors.add(invalid(field, amount, NOT_AN_INTEGER))


def requirement_rules(
    errors: FieldErrors,
    requirements: Object,
    field: str,
    api_domain: str,
    *,
    indivisible_huge_pages: bool = False,
) -> None:
    """`indivisible_huge_pages` tolerates amounts that are no multiple of the page size, which old objects may have."""
    limits, requests = requirements.get("limits", {}), requirements.get("requests", {})
    for name, amount in limits.items():
        _container_amount_rules(errors, name, amount, f"{field}.limits", api_domain, indivisible_huge_pages)
    for name, amount in requests.items():
        here = f"{field}.requests"
        if name in STANDARD_CONTAINER_RESOURCES:
            _container_amount_rules(errors, name, amount, here, api_domain, indivisible_huge_pages)
            _within_limit(errors, name, amount, limits.get(name), here)
        else:
            _container_amount_rules(errors, name, amount, here, api_domain, True)
            _overcommit_rules(errors, name, amount, limits.get(name), field, api_domain)
            _huge_page_rules(errors, name, amount, f"{here}[{name}]", indivisible_huge_pages)
    if any(name.startswith(HUGE_PAGES) for name in (*limits, *requests)):
        _huge_pages_need_cpu_or_memory(errors, limits, requests, field)


def _container_amount_rules(
    errors: FieldErrors, name: str, amount: str, field: str, api_domain: str, indivisible_huge_pages: bool
) -> None:
    if name in STANDARD_CONTAINER_RESOURCES:
        if amount.startswith("-"):
            errors.add(invalid(f"{field}[{name}]", amount, NEGATIVE))
        return
    here = f"{field}[{name}]"
    container_name_rules(errors, name, here, api_domain)
    amount_rules(errors, name, amount, here, api_domain)
    _huge_page_rules(errors, name, amount, here, indivisible_huge_pages)


def container_name_rules(errors: FieldErrors, name: str, field: str, api_domain: str) -> None:
    resource_name_rules(errors, name, field)
    if "/" not in name:
        if name not in STANDARD_CONTAINER_RESOURCES and not name.startswith(HUGE_PAGES):
            errors.add(invalid(field, name, "must be a standard resource for containers"))
    elif not is_native(name, api_domain) and not is_extended(name, api_domain):
        errors.add(invalid(field, name, "doesn't follow extended resource name standard"))


def _overcommit_rules(
    errors: FieldErrors, name: str, amount: str, limit: str | None, field: str, api_domain: str
) -> None:
    """Resources that cannot be overcommitted need equal requests and limits."""
    if is_native(name, api_domain) and not name.startswith(HUGE_PAGES):
        _within_limit(errors, name, amount, limit, f"{field}.requests")
        return
    if limit is None:
        errors.add(required(f"{field}.limits", "Limit must be set for non overcommitable resources"))
        return
    if nanos(amount) != nanos(limit):
        errors.add(invalid(f"{field}.requests", amount, f"must be equal to {name} limit"))


def _within_limit(errors: FieldErrors, name: str, amount: str, limit: str | None, field: str) -> None:
    if limit is not None and amount != limit and nanos(amount) > nanos(limit):
        errors.add(invalid(field, amount, f"must be less than or equal to {name} limit"))


def _huge_page_rules(
    errors: FieldErrors, name: str, amount: str, field: str, indivisible_huge_pages: bool
) -> None:
    if (
        not indivisible_huge_pages
        and name.startswith(HUGE_PAGES)
        and not is_multiple_of_page_size(name, amount)
    ):
        errors.add(invalid(field, amount, f"{amount} is not positive integer multiple of {name}"))


def is_multiple_of_page_size(name: str, amount: str) -> bool:
    try:
        page = nanos(name.removeprefix(HUGE_PAGES))
    except NotAQuantity:
        return False
    if page <= 0 or page % NANOS:
        return False
    units = -(-nanos(amount) // NANOS)
    return units % (page // NANOS) == 0


def _huge_pages_need_cpu_or_memory(
    errors: FieldErrors, limits: Mapping[str, str], requests: Mapping[str, str], field: str
) -> None:
    if {"cpu", "memory"}.isdisjoint((*limits, *requests)):
        errors.add(forbidden(field, "HugePages require cpu or memory"))


def round_up(amounts: dict[str, str]) -> None:
    """Round up to a multiple of one thousandth, the smallest amount that is stored."""
    for name, amount in amounts.items():
        if amount[-1] in "nu" or not amount.isalnum():  # others are multiples
            amounts[name] = rounded_to(NANOS // 1000, amount)
