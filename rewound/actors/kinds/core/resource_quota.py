"""ResourceQuota: how much all objects of a namespace may use together; the status has the current usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from rewound.actors.golang.format import Formatted, Repeated
from rewound.actors.golang.quoting import quoted_list
from rewound.actors.kinds.core.resources import (
    HUGE_PAGES,
    STANDARD_RESOURCES,
    amount_rules,
    resource_name_rules,
    round_up,
    shown_name,
)
from rewound.actors.kinds.declaration.columns import AGE, NAME, Column
from rewound.actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Strategy,
    Subresource,
    Table,
    clear_status,
    keep_spec,
    keep_status,
)
from rewound.actors.kinds.declaration.meta import METADATA, NO_OPERATOR, metadata_update_rules
from rewound.actors.kinds.schema.fields import (
    QUANTITIES,
    STRING,
    STRINGS,
    UNTYPED_BEFORE_1_30,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.validation import (
    IMMUTABLE,
    FieldErrors,
    invalid,
    name_is_subdomain,
    required,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names

SCOPES: Final = (
    *("BestEffort", "CrossNamespacePodAffinity", "NotBestEffort"),
    *("NotTerminating", "PriorityClass", "Terminating"),
)
EXISTS_ONLY_SCOPES: Final = frozenset(SCOPES) - {"PriorityClass"}  # only with the operator Exists
CONFLICTING_SCOPES: Final = (
    frozenset(("BestEffort", "NotBestEffort")),
    frozenset(("Terminating", "NotTerminating")),
)
COMPUTE_RESOURCES: Final = frozenset(
    ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
)
QUOTA_RESOURCES: Final = STANDARD_RESOURCES - {"storage"}
MUST_BE_EXISTS: Final = (
    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)

REQUIREMENT = Struct(
    "core.v1.ScopedResourceSelectorRequirement",
    Field("scopeName", STRING, 1, required=True, always=True, enum=SCOPES),
    Field(
        "operator",
        STRING,
        2,
        required=True,
        always=True,
        enum=("DoesNotExist", "Exists", "In", "NotIn"),
    ),
    Field("values", STRINGS, 3, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
SCOPE_SELECTOR = Struct(
    "core.v1.ScopeSelector",
    Field("matchExpressions", ListOf(REQUIREMENT), 1, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    atomic=True,
)
SPEC = Struct(
    "core.v1.ResourceQuotaSpec",
    Field("hard", QUANTITIES, 1),
    Field("scopes", STRINGS, 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("scopeSelector", SCOPE_SELECTOR, 3, pointer=True),
)
STATUS = Struct("core.v1.ResourceQuotaStatus", Field("hard", QUANTITIES, 1), Field("used", QUANTITIES, 2))
RESOURCE_QUOTA = Struct("core.v1.ResourceQuota", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3))


def _used(stored: Object, limits: bool) -> str:
    hard, used = stored["status"].get("hard", {}), stored["status"].get("used", {})
    names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


COLUMNS: Final = (
    NAME,
    replace(AGE, until="1.32"),
    Column(
        "Request",
        "string",
        "Used and hard amounts of requests and object counts.",
        lambda stored, _: _used(stored, limits=False),
    ),
    Column(
        "Limit", "string", "Used and hard amounts of limits.", lambda stored, _: _used(stored, limits=True)
    ),
    replace(AGE, since="1.33"),
)


def define(names: Names) -> Definition:
    api_domain = names.key("")
    return Definition(
        group="",
        version="v1",
        kind="ResourceQuota",
        plural="resourcequotas",
        names=DiscoveryNames(short_names=("quota",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=RESOURCE_QUOTA,
        set_defaults=set_defaults,
        subresources=(
            Subresource(
                name="status", prepare=keep_spec, validate=partial(status_rules, api_domain=api_domain)
            ),
        ),
        deletion=Deletion(returns_object=True),
        table=Table(COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(clear_status, STATUS),
            prepare_for_update=keep_status,
            validate_create=partial(rules, api_domain=api_domain),
            validate_update=partial(update_rules, api_domain=api_domain),
        ),
    )


def set_defaults(new: Object) -> None:
    for amounts in (new["spec"].get("hard"), new["status"].get("hard"), new["status"].get("used")):
        round_up(amounts or {})


def rules(errors: FieldErrors, new: Object, *, api_domain: str) -> None:
    spec = new["spec"]
    hard = spec.get("hard", {})
    _amount_rules(errors, hard, "spec.hard", api_domain)
    _scope_rules(errors, spec.get("scopes", []), hard)
    _scope_selector_rules(errors, spec.get("scopeSelector", {}), spec.get("scopes", []), hard)


def update_rules(errors: FieldErrors, new: Object, old: Object, *, api_domain: str) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    rules(errors, new, api_domain=api_domain)
    scopes, before = (one["spec"].get("scopes", []) for one in (new, old))
    if set(scopes) != set(before):
        errors.add(invalid("spec.scopes", _shown_scopes(scopes), IMMUTABLE))


def status_rules(errors: FieldErrors, new: Object, old: Object, *, api_domain: str) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    for part in ("hard", "used"):
        _amount_rules(errors, new["status"].get(part, {}), f"status.{part}", api_domain)


def _amount_rules(errors: FieldErrors, amounts: Mapping[str, str], field: str, api_domain: str) -> None:
    for name, amount in amounts.items():
        here = f"{field}[{name}]"
        resource_name_rules(errors, name, here)
        if "/" not in name and not _is_standard(name):
            errors.add(invalid(here, shown_name(errors, name), "must be a standard resource for quota"))
        amount_rules(errors, name, amount, here, api_domain)


def _is_standard(name: str) -> bool:
    return name in QUOTA_RESOURCES or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}"))


def _scope_rules(errors: FieldErrors, scopes: list[str], hard: Iterable[str]) -> None:
    inapplicable = _inapplicable(hard)
    field, all_scopes, has = "spec.scopes", Repeated(lambda: _shown_scopes(scopes)), set(scopes)
    for scope in scopes:
        if scope not in SCOPES:
            errors.add(invalid(field, all_scopes, "unsupported scope"))
        for _ in range(inapplicable.get(scope, 0)):
            errors.add(invalid(field, all_scopes, "unsupported scope applied to resource"))
    for pair in CONFLICTING_SCOPES:
        if pair <= has:
            errors.add(invalid(field, all_scopes, "conflicting scopes"))


def _shown_scopes(scopes: list[str]) -> Formatted:
    return Formatted(f"[]core.ResourceQuotaScope{{{quoted_list(scopes)}}}", scopes)


def _inapplicable(hard: Iterable[str]) -> Mapping[str, int]:
    """Return, by scope, how many resources do not apply to its pods."""
    standard = {name for name in hard if _is_standard(name)}
    best_effort, others = len(standard - {"pods"}), len(standard - {"pods"} - COMPUTE_RESOURCES)
    return {scope: best_effort if scope == "BestEffort" else others for scope in SCOPES}


def _scope_selector_rules(
    errors: FieldErrors, selector: Object, scopes: list[str], hard: Iterable[str]
) -> None:
    field = "spec.scopeSelector.matchExpressions"
    names: set[str] = set()
    inapplicable = _inapplicable(hard)
    whole = Repeated(lambda: selector)
    for requirement in selector.get("matchExpressions", ()):
        scope = requirement["scopeName"]
        if scope not in SCOPES:
            errors.add(invalid(f"{field}.scopeName", scope, "unsupported scope"))
        for _ in range(inapplicable.get(scope, 0)):
            errors.add(invalid(field, whole, "unsupported scope applied to resource"))
        _requirement_rules(errors, requirement, field)
        names.add(scope)
    for pair in CONFLICTING_SCOPES:
        if pair <= names:
            errors.add(invalid(field, _shown_scopes(scopes), "conflicting scopes"))


def _requirement_rules(errors: FieldErrors, requirement: Object, field: str) -> None:
    operator, values = requirement["operator"], requirement.get("values", [])
    if requirement["scopeName"] in EXISTS_ONLY_SCOPES and operator != "Exists":
        errors.add(invalid(f"{field}.operator", operator, MUST_BE_EXISTS))
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.add(required(f"{field}.values", text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.add(invalid(f"{field}.values", values, text))
    else:
        errors.add(invalid(f"{field}.operator", operator, NO_OPERATOR))
