"""Resource requirements: which resources containers may request, and the rules of their names and amounts.

A name without a domain is the API's own, and so is one under its domain; all others are extended resources, which
are counted in whole units and cannot be overcommitted. `home` is the API's domain with a slash, as the dialect
spells it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from actors.kinds.schema.fields import QUANTITIES, Field, Struct
from actors.kinds.validation.checks import qualified_name
from actors.kinds.validation.field_errors import (
    NEGATIVE,
    FieldErrors,
    forbidden,
    invalid,
    required,
)
from actors.kinds.values.quantity import NANOS, NotAQuantity, canonical_quantity, nanos_of
from actors.messages import Object

RESOURCE_REQUIREMENTS = Struct(
    "core.v1.ResourceRequirements",
    Field("limits", QUANTITIES, 1),
    Field("requests", QUANTITIES, 2),
)

HUGE_PAGES: Final = "hugepages-"
MEASURED: Final = frozenset(("cpu", "memory", "ephemeral-storage"))  # what every container may request
COUNTED: Final = frozenset(
    (
        *("pods", "resourcequotas", "services", "services.nodeports", "services.loadbalancers"),
        *("replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims"),
    )
)
KNOWN: Final = (
    MEASURED
    | COUNTED
    | {"storage", "requests.storage"}
    | {f"{what}.{name}" for what in ("requests", "limits") for name in MEASURED}
)
NOT_WHOLE: Final = "must be an integer"

# Amounts repeat from container to container and from pod to pod.
nanos = lru_cache(maxsize=1024)(nanos_of)


def is_native(name: str, home: str) -> bool:
    return "/" not in name or home in name


def is_extended(name: str, home: str) -> bool:
    if is_native(name, home) or name.startswith("requests."):
        return False
    return not qualified_name(f"requests.{name}")


def resource_name_rules(errors: FieldErrors, name: str, field: str) -> None:
    wrong = qualified_name(name)
    errors.add_each(field, name, wrong)
    if wrong or "/" in name or name in KNOWN or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}")):
        return
    errors.add(invalid(field, name, "must be a standard resource type or fully qualified"))


def amount_rules(errors: FieldErrors, name: str, amount: str, field: str, home: str) -> None:
    if amount.startswith("-"):
        errors.add(invalid(field, amount, NEGATIVE))
    if (name in COUNTED or is_extended(name, home)) and nanos(amount) % NANOS:
        errors.add(invalid(field, amount, NOT_WHOLE))


def requirement_rules(
    errors: FieldErrors, requirements: Object, field: str, home: str, *, uneven_pages: bool = False
) -> None:
    """`uneven_pages` tolerates huge pages that are no multiple of the page size: old objects may have them."""
    limits, requests = requirements.get("limits", {}), requirements.get("requests", {})
    for name, amount in limits.items():
        _one_amount(errors, name, amount, f"{field}.limits", home, uneven_pages)
    for name, amount in requests.items():
        here = f"{field}.requests"
        if name in MEASURED:
            _one_amount(errors, name, amount, here, home, uneven_pages)
            _within(errors, name, amount, limits.get(name), here)
        else:
            _one_amount(errors, name, amount, here, home, True)
            _promised(errors, name, amount, limits.get(name), field, home)
            _page_rules(errors, name, amount, f"{here}[{name}]", uneven_pages)
    if any(name.startswith(HUGE_PAGES) for name in (*limits, *requests)):
        _pages_need_more(errors, limits, requests, field)


def _one_amount(
    errors: FieldErrors, name: str, amount: str, field: str, home: str, uneven_pages: bool
) -> None:
    if name in MEASURED:
        if amount.startswith("-"):
            errors.add(invalid(f"{field}[{name}]", amount, NEGATIVE))
        return
    here = f"{field}[{name}]"
    container_name_rules(errors, name, here, home)
    amount_rules(errors, name, amount, here, home)
    _page_rules(errors, name, amount, here, uneven_pages)


def container_name_rules(errors: FieldErrors, name: str, field: str, home: str) -> None:
    resource_name_rules(errors, name, field)
    if "/" not in name:
        if name not in MEASURED and not name.startswith(HUGE_PAGES):
            errors.add(invalid(field, name, "must be a standard resource for containers"))
    elif not is_native(name, home) and not is_extended(name, home):
        errors.add(invalid(field, name, "doesn't follow extended resource name standard"))


def _promised(errors: FieldErrors, name: str, amount: str, limit: str | None, field: str, home: str) -> None:
    """Resources that cannot be overcommitted need equal requests and limits."""
    if is_native(name, home) and not name.startswith(HUGE_PAGES):
        _within(errors, name, amount, limit, f"{field}.requests")
        return
    if limit is None:
        errors.add(required(f"{field}.limits", "Limit must be set for non overcommitable resources"))
        return
    if nanos(amount) != nanos(limit):
        errors.add(invalid(f"{field}.requests", amount, f"must be equal to {name} limit"))


def _within(errors: FieldErrors, name: str, amount: str, limit: str | None, field: str) -> None:
    if limit is not None and amount != limit and nanos(amount) > nanos(limit):
        errors.add(invalid(field, amount, f"must be less than or equal to {name} limit"))


def _page_rules(errors: FieldErrors, name: str, amount: str, field: str, uneven_pages: bool) -> None:
    if not uneven_pages and name.startswith(HUGE_PAGES) and not in_whole_pages(name, amount):
        errors.add(invalid(field, amount, f"{amount} is not positive integer multiple of {name}"))


def in_whole_pages(name: str, amount: str) -> bool:
    try:
        page = nanos(name.removeprefix(HUGE_PAGES))
    except NotAQuantity:
        return False
    if page <= 0 or page % NANOS:
        return False
    units = -(-nanos(amount) // NANOS)
    return units % (page // NANOS) == 0


def _pages_need_more(
    errors: FieldErrors, limits: Mapping[str, str], requests: Mapping[str, str], field: str
) -> None:
    if {"cpu", "memory"}.isdisjoint((*limits, *requests)):
        errors.add(forbidden(field, "HugePages require cpu or memory"))


def round_up(amounts: dict[str, str]) -> None:
    """Round up to a multiple of one thousandth, the smallest amount that is stored."""
    for name, amount in amounts.items():
        if amount[-1] in "nu":
            thousandths = -(-nanos_of(amount) // (NANOS // 1000))
            amounts[name] = canonical_quantity(f"{thousandths}m")
