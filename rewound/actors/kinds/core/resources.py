"""Resource requirements: which resources containers may request, and the rules of their names and amounts.

A name without a domain is the API's own, and so is one under its domain; all others are extended resources, which are
counted in whole units and cannot be overcommitted. `api_domain` is the API's domain with a slash, in the dialect of
the server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Final

from rewound.actors.golang.format import Formatted
from rewound.actors.golang.quoting import LONGEST
from rewound.actors.kinds.schema.fields import QUANTITIES, STRING, Field, ListOf, Struct
from rewound.actors.kinds.validation import (
    NEGATIVE,
    FieldErrors,
    dns_label,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    qualified_name,
    required,
    reworded,
)
from rewound.actors.messages import Object
from rewound.actors.quantity import (
    NANOS,
    NotAQuantity,
    is_count,
    nanos_of,
    parse_quantity,
    quantity_text,
    rounded_to,
)
from rewound.actors.versions.features import BARE_RESOURCE_NAMES, LIMIT_IN_TEXTS, POD_LEVEL_HUGE_PAGES

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

NameRules = Callable[[FieldErrors, str, str], None]

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
    shown = shown_name(errors, name)
    errors.add_each(field, shown, wrong)
    if (
        wrong
        or "/" in name
        or name in STANDARD_RESOURCES
        or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}"))
    ):
        return
    errors.add(invalid(field, shown, "must be a standard resource type or fully qualified"))


def shown_name(errors: FieldErrors, name: str, feature: str = BARE_RESOURCE_NAMES) -> str:
    """Return the name of a resource as errors print it."""
    return Formatted(name) if feature in errors.features else name


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
    name_rules: NameRules | None = None,
) -> None:
    """`indivisible_huge_pages` tolerates amounts that are no multiple of the page size, which old objects may have.

    `name_rules` check the names of resources; without them, they are those of containers.
    """
    limits, requests = requirements.get("limits", {}), requirements.get("requests", {})
    amounts = partial(_amount_rules, name_rules=name_rules)
    for name, amount in limits.items():
        amounts(errors, name, amount, f"{field}.limits", api_domain, indivisible_huge_pages)
    for name, amount in requests.items():
        here = f"{field}.requests"
        if name in STANDARD_CONTAINER_RESOURCES:
            amounts(errors, name, amount, here, api_domain, indivisible_huge_pages)
            _within_limit(errors, name, amount, limits.get(name), here)
        else:
            amounts(errors, name, amount, here, api_domain, True)
            _overcommit_rules(errors, name, amount, limits.get(name), field, api_domain)
            _huge_page_rules(errors, name, amount, f"{here}[{name}]", indivisible_huge_pages)
    if any(name.startswith(HUGE_PAGES) for name in (*limits, *requests)):
        _huge_pages_need_cpu_or_memory(errors, limits, requests, field)


def _amount_rules(
    errors: FieldErrors,
    name: str,
    amount: str,
    field: str,
    api_domain: str,
    indivisible_huge_pages: bool,
    *,
    name_rules: NameRules | None,
) -> None:
    here = f"{field}[{name}]"
    if name_rules is not None:
        name_rules(errors, name, here)
    if name in STANDARD_CONTAINER_RESOURCES:
        if amount.startswith("-"):
            errors.add(invalid(here, amount, NEGATIVE))
        return
    if name_rules is None:
        container_name_rules(errors, name, here, api_domain)
    amount_rules(errors, name, amount, here, api_domain)
    _huge_page_rules(errors, name, amount, here, indivisible_huge_pages)


def container_name_rules(errors: FieldErrors, name: str, field: str, api_domain: str) -> None:
    resource_name_rules(errors, name, field)
    if "/" not in name:
        if name not in STANDARD_CONTAINER_RESOURCES and not name.startswith(HUGE_PAGES):
            errors.add(invalid(field, shown_name(errors, name), "must be a standard resource for containers"))
    elif not is_native(name, api_domain) and not is_extended(name, api_domain):
        errors.add(invalid(field, shown_name(errors, name), "doesn't follow extended resource name standard"))


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
        text = f"must be equal to {name} limit"
        errors.add(invalid(f"{field}.requests", amount, reworded(text, LIMIT_IN_TEXTS, f"{text} of {limit}")))


def _within_limit(errors: FieldErrors, name: str, amount: str, limit: str | None, field: str) -> None:
    if limit is not None and amount != limit and nanos(amount) > nanos(limit):
        text = f"must be less than or equal to {name} limit"
        errors.add(invalid(field, amount, reworded(text, LIMIT_IN_TEXTS, f"{text} of {limit}")))


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


def claim_rules(errors: FieldErrors, claims: list[Object], names: frozenset[str], field: str) -> None:
    """Validate the claims that a container uses; `names` are the claims of its pod."""
    seen, requests = set[str](), Counter[str]()  # keys, and how many requests of each claim
    listed = ""
    for index, claim in enumerate(claims):
        name, request, here = claim["name"], claim.get("request", ""), f"{field}[{index}]"
        if not name:
            errors.add(required(here))
            continue
        if name in seen:
            errors.add(duplicate(here, name))
        else:
            key = f"{name}/{request}" if request else name
            if request:
                errors.add_each(f"{here}.request", request, dns_label(request))
                requests[name] += key not in seen
            if key in seen:
                errors.add(duplicate(here, key))
            elif not request:
                errors.add_all(duplicate(here, name) for _ in range(requests[name]))
            seen.add(key)
        if name not in names:
            listed = listed or (f": {', '.join(sorted(names))[:LONGEST]}" if names else " which is empty")
            text = f"must be one of the names in pod.spec.resourceClaims{listed}"
            errors.add(not_found(here, name, text))


def pod_requirement_rules(errors: FieldErrors, spec: Object, field: str, api_domain: str) -> None:
    """Validate the resources of a whole pod, and that they are enough for its containers."""
    resources = spec["resources"]
    if spec.get("os", {}).get("name") == "windows" and POD_LEVEL_HUGE_PAGES in errors.features:
        errors.add(forbidden(field, "may not be set for a windows pod"))
        return
    if "claims" in resources:
        errors.add(forbidden(f"{field}.claims", "claims may not be set for Resources at pod-level"))
    requirement_rules(errors, resources, field, api_domain, name_rules=_pod_name_rules)
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    for name, total in total_of(spec, "requests").items():
        if name in requests and nanos(total) > nanos(requests[name]):
            text = f"must be greater than or equal to aggregate container requests of {total}"
            errors.add(invalid(f"{field}.requests[{name}]", requests[name], text))
    for name, total in total_of(spec, "limits").items():
        if name.startswith(HUGE_PAGES) and name in limits and nanos(total) > nanos(limits[name]):
            text = f"must be greater than or equal to aggregate container limits of {total}"
            errors.add(invalid(f"{field}.limits[{name}]", limits[name], text))
    for index, container in enumerate(spec["containers"] or ()):
        for name, limit in container["resources"].get("limits", {}).items():
            if name in limits and nanos(limit) > nanos(limits[name]):
                text = f"must be less than or equal to pod limits of {limits[name]}"
                errors.add(invalid(f"{field}.containers[{index}][{name}].limits", limit, text))


def _pod_name_rules(errors: FieldErrors, name: str, field: str) -> None:
    if errors.added_by(resource_name_rules, name, field) or name in ("cpu", "memory"):
        return
    if POD_LEVEL_HUGE_PAGES not in errors.features:
        errors.add(not_supported(field, shown_name(errors, name), ("cpu", "memory")))
    elif not name.startswith(HUGE_PAGES):
        errors.add(not_supported(field, shown_name(errors, name), ("cpu", HUGE_PAGES, "memory")))


def is_sidecar(container: Object) -> bool:
    """Whether an init container keeps running beside the main containers."""
    return bool(container.get("restartPolicy") == "Always")


def total_of(spec: Object, part: str) -> dict[str, str]:
    """Return the requests or limits of all containers together: init containers run before the others."""
    total, sidecars, largest = _Total(), _Total(), _Total()
    for container in spec["containers"] or ():
        total.add(container["resources"].get(part, {}))
    for container in spec.get("initContainers", ()):
        amounts = container["resources"].get(part, {})
        if is_sidecar(container):
            total.add(amounts)
            sidecars.add(amounts)
            largest.raise_to(sidecars)
        else:
            alone = _Total()
            alone.add(amounts)
            alone.add(sidecars.texts())
            largest.raise_to(alone)
    total.raise_to(largest)
    return total.texts()


class _Total(dict[str, tuple[int, str]]):
    """Amounts in nano-units with the style of their texts."""

    def add(self, amounts: Mapping[str, str]) -> None:
        for name, text in amounts.items():
            amount, style = parse_quantity(text)
            before = self.get(name, (0, style))
            self[name] = before[0] + amount, before[1] if before[0] else style

    def raise_to(self, other: _Total) -> None:
        for name, amount in other.items():
            if name not in self or amount[0] > self[name][0]:
                self[name] = amount

    def texts(self) -> dict[str, str]:
        return {name: quantity_text(*amount) for name, amount in self.items()}


def set_pod_resource_defaults(spec: Object, *, huge_pages: bool) -> None:
    """Fill the resources of a whole pod from those of its containers, and requests from limits."""
    resources = dict(spec["resources"])
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    if huge_pages and (requests or limits):
        found = {
            name: amount
            for name, amount in total_of(spec, "limits").items()
            if name.startswith(HUGE_PAGES) and name not in requests
        }
        limits = {**found, **limits}
    if limits:
        supported = ("cpu", "memory")
        found = {name: amount for name, amount in total_of(spec, "requests").items() if name in supported}
        own = {
            name: amount
            for name, amount in limits.items()
            if name in supported or (huge_pages and name.startswith(HUGE_PAGES))
        }
        requests = {**own, **found, **requests}
    for part, amounts in (("limits", limits), ("requests", requests)):
        if amounts:
            resources[part] = dict(sorted(amounts.items()))
    spec["resources"] = RESOURCE_REQUIREMENTS.arranged(resources)
