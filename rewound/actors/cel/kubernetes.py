"""The libraries that Kubernetes adds to CEL after v1.25: their types, declarations and functions.

`DECLARATIONS` are read by `declarations`, by the feature that a language must have; `FUNCTIONS` are what runs: the
name of the function, the overload, the classes of its arguments, and the function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from rewound.actors.cel import addresses, authorizer, formats, quantities, semver
from rewound.actors.cel.addresses import CIDR, IP
from rewound.actors.cel.authorizer import Authorizer, Decision, GroupCheck, PathCheck, ResourceCheck
from rewound.actors.cel.formats import EARLIER_FORMATS, FORMATS, Format
from rewound.actors.cel.quantities import Quantity
from rewound.actors.cel.semver import Semver
from rewound.actors.versions.features import (
    CEL_ADDRESSES,
    CEL_AUTHORIZER,
    CEL_AUTHORIZER_ERRORS,
    CEL_FORMATS,
    CEL_JSON_PATCH,
    CEL_NETWORKS_IN_NETWORKS,
    CEL_QUANTITIES,
    CEL_SELECTORS,
    CEL_SEMVER,
    CEL_SETS,
    LABEL_KEY_TEXTS,
)

# The types by their names in declarations.
TYPES: Final = {
    "authorizer": Authorizer.type_name,
    "path_check": PathCheck.type_name,
    "group_check": GroupCheck.type_name,
    "resource_check": ResourceCheck.type_name,
    "decision": Decision.type_name,
    "quantity": Quantity.type_name,
    "ip": IP.type_name,
    "cidr": CIDR.type_name,
    "format": Format.type_name,
    "semver": Semver.type_name,
}

DECLARATIONS: Final = {
    CEL_AUTHORIZER: """
path authorizer_path authorizer.(string) path_check
group authorizer_group authorizer.(string) group_check
serviceAccount authorizer_serviceaccount authorizer.(string, string) authorizer
resource groupcheck_resource group_check.(string) resource_check
subresource resourcecheck_subresource resource_check.(string) resource_check
namespace resourcecheck_namespace resource_check.(string) resource_check
name resourcecheck_name resource_check.(string) resource_check
check pathcheck_check path_check.(string) decision
check resourcecheck_check resource_check.(string) decision
allowed decision_allowed decision.() bool
reason decision_reason decision.() string
""",
    CEL_AUTHORIZER_ERRORS: """
errored decision_errored decision.() bool
error decision_error decision.() string
""",
    CEL_SELECTORS: """
fieldSelector authorizer_fieldselector resource_check.(string) resource_check
labelSelector authorizer_labelselector resource_check.(string) resource_check
""",
    CEL_QUANTITIES: """
quantity string_to_quantity (string) quantity
isQuantity is_quantity_string (string) bool
sign quantity_sign (quantity) int
isGreaterThan quantity_is_greater_than quantity.(quantity) bool
isLessThan quantity_is_less_than quantity.(quantity) bool
compareTo quantity_compare_to quantity.(quantity) int
asApproximateFloat quantity_get_float quantity.() double
asInteger quantity_get_int quantity.() int
isInteger quantity_is_integer quantity.() bool
add quantity_add quantity.(quantity) quantity
add quantity_add_int quantity.(int) quantity
sub quantity_sub quantity.(quantity) quantity
sub quantity_sub_int quantity.(int) quantity
""",
    CEL_SETS: """
sets.contains list_sets_contains_list (list(A), list(A)) bool
sets.equivalent list_sets_equivalent_list (list(A), list(A)) bool
sets.intersects list_sets_intersects_list (list(A), list(A)) bool
""",
    CEL_ADDRESSES: """
ip string_to_ip (string) ip
ip cidr_ip cidr.() ip
family ip_family ip.() int
ip.isCanonical ip_is_canonical (string) bool
isUnspecified ip_is_unspecified ip.() bool
isLoopback ip_is_loopback ip.() bool
isLinkLocalMulticast ip_is_link_local_multicast ip.() bool
isLinkLocalUnicast ip_is_link_local_unicast ip.() bool
isGlobalUnicast ip_is_global_unicast ip.() bool
isIP is_ip (string) bool
string ip_to_string (ip) string
cidr string_to_cidr (string) cidr
containsIP cidr_contains_ip_string cidr.(string) bool
containsIP cidr_contains_ip_ip cidr.(ip) bool
containsCIDR cidr_contains_cidr_string cidr.(string) bool
containsCIDR cidr_contains_cidr cidr.(cidr) bool
prefixLength cidr_prefix_length cidr.() int
masked cidr_masked cidr.() cidr
isCIDR is_cidr (string) bool
string cidr_to_string (cidr) string
""",
    CEL_FORMATS: """
validate format-validate format.(string) optional_type(list(string))
format.named format-named (string) optional_type(format)
"""
    + "\n".join(f"format.{name} format.{name} () format" for name in FORMATS),
    CEL_SEMVER: """
semver string_to_semver (string) semver
semver string_bool_to_semver (string, bool) semver
isSemver is_semver_string (string) bool
isSemver is_semver_string_bool (string, bool) bool
isGreaterThan semver_is_greater_than semver.(semver) bool
isLessThan semver_is_less_than semver.(semver) bool
compareTo semver_compare_to semver.(semver) int
major semver_major semver.() int
minor semver_minor semver.() int
patch semver_patch semver.() int
""",
    CEL_JSON_PATCH: """
jsonpatch.escapeKey string_jsonpatch_escapeKey_string (string) string
""",
}

FUNCTIONS: Final[list[tuple[str, str, tuple[type | None, ...], Callable[..., Any]]]] = [
    ("path", "authorizer_path", (Authorizer, str), authorizer.path),
    ("group", "authorizer_group", (Authorizer, str), authorizer.group),
    ("serviceAccount", "authorizer_serviceaccount", (Authorizer, str, str), authorizer.service_account),
    ("resource", "groupcheck_resource", (GroupCheck, str), authorizer.resource),
    ("subresource", "resourcecheck_subresource", (ResourceCheck, str), authorizer.narrowed("subresource")),
    ("namespace", "resourcecheck_namespace", (ResourceCheck, str), authorizer.narrowed("namespace")),
    ("name", "resourcecheck_name", (ResourceCheck, str), authorizer.narrowed("name")),
    (
        "fieldSelector",
        "authorizer_fieldselector",
        (ResourceCheck, str),
        authorizer.narrowed("field_selector"),
    ),
    (
        "labelSelector",
        "authorizer_labelselector",
        (ResourceCheck, str),
        authorizer.narrowed("label_selector"),
    ),
    ("check", "pathcheck_check", (PathCheck, str), authorizer.check),
    ("check", "resourcecheck_check", (ResourceCheck, str), authorizer.check),
    ("errored", "decision_errored", (Decision,), lambda found: bool(found.decided.error)),
    ("error", "decision_error", (Decision,), lambda found: found.decided.error),
    ("allowed", "decision_allowed", (Decision,), lambda found: found.decided.allowed),
    ("reason", "decision_reason", (Decision,), lambda found: found.decided.reason),
    ("quantity", "string_to_quantity", (str,), quantities.parse),
    ("isQuantity", "is_quantity_string", (str,), quantities.is_quantity),
    ("sign", "quantity_sign", (Quantity,), Quantity.sign),
    ("asApproximateFloat", "quantity_get_float", (Quantity,), Quantity.approximate),
    ("asInteger", "quantity_get_int", (Quantity,), quantities.as_integer),
    ("isInteger", "quantity_is_integer", (Quantity,), lambda given: given.integer() is not None),
    ("add", "quantity_add", (Quantity, Quantity), Quantity.plus),
    ("add", "quantity_add_int", (Quantity, int), lambda left, right: left.plus(quantities.of_integer(right))),
    ("sub", "quantity_sub", (Quantity, Quantity), Quantity.minus),
    (
        "sub",
        "quantity_sub_int",
        (Quantity, int),
        lambda left, right: left.minus(quantities.of_integer(right)),
    ),
    *(
        (function, f"{name}_{overload}", (kind, kind), run)
        for name, kind in (("quantity", Quantity), ("semver", Semver))
        for function, overload, run in (
            ("isGreaterThan", "is_greater_than", lambda left, right: left.compare(right) > 0),
            ("isLessThan", "is_less_than", lambda left, right: left.compare(right) < 0),
            ("compareTo", "compare_to", lambda left, right: left.compare(right)),
        )
    ),
    ("ip", "string_to_ip", (str,), addresses.parse_ip),
    ("ip", "cidr_ip", (CIDR,), lambda given: given.address),
    ("family", "ip_family", (IP,), lambda given: 4 if given.bits == 32 else 6),
    ("ip.isCanonical", "ip_is_canonical", (str,), addresses.is_canonical),
    ("isUnspecified", "ip_is_unspecified", (IP,), lambda given: not given.number),
    ("isLoopback", "ip_is_loopback", (IP,), IP.is_loopback),
    ("isLinkLocalMulticast", "ip_is_link_local_multicast", (IP,), IP.is_link_local_multicast),
    ("isLinkLocalUnicast", "ip_is_link_local_unicast", (IP,), IP.is_link_local_unicast),
    ("isGlobalUnicast", "ip_is_global_unicast", (IP,), IP.is_global_unicast),
    ("isIP", "is_ip", (str,), addresses.is_ip),
    ("cidr", "string_to_cidr", (str,), addresses.parse_cidr),
    ("containsIP", "cidr_contains_ip_string", (CIDR, str), addresses.contains_text),
    ("containsIP", "cidr_contains_ip_ip", (CIDR, IP), CIDR.contains),
    (
        "containsCIDR",
        "cidr_contains_cidr_string",
        (CIDR, str),
        lambda left, right: left.contains_network(addresses.parse_cidr(right)),
    ),
    ("containsCIDR", "cidr_contains_cidr", (CIDR, CIDR), CIDR.contains_network),
    ("prefixLength", "cidr_prefix_length", (CIDR,), lambda given: given.length),
    ("masked", "cidr_masked", (CIDR,), CIDR.masked),
    ("isCIDR", "is_cidr", (str,), addresses.is_cidr),
    ("validate", "format-validate", (Format, str), Format.validate),
    ("format.named", "format-named", (str,), formats.named),
    ("semver", "string_to_semver", (str,), semver.parse),
    ("semver", "string_bool_to_semver", (str, bool), semver.parse),
    ("isSemver", "is_semver_string", (str,), semver.is_semver),
    ("isSemver", "is_semver_string_bool", (str, bool), semver.is_semver),
    *(
        (name, f"semver_{name}", (Semver,), partial(Semver.number, index=index))
        for index, name in enumerate(("major", "minor", "patch"))
    ),
    (
        "jsonpatch.escapeKey",
        "string_jsonpatch_escapeKey_string",
        (str,),
        lambda key: key.replace("~", "~0").replace("/", "~1"),
    ),
]

# What runs instead of a function in languages without a feature.
EARLIER: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    "cidr_contains_cidr_string": (
        CEL_NETWORKS_IN_NETWORKS,
        lambda left, right: left.contains_unmasked(addresses.parse_cidr(right)),
    ),
    "cidr_contains_cidr": (CEL_NETWORKS_IN_NETWORKS, CIDR.contains_unmasked),
    "format-named": (LABEL_KEY_TEXTS, formats.named_earlier),
}


def constant(name: str, features: frozenset[str]) -> Format | None:
    """Return what a function without arguments returns."""
    known = FORMATS if LABEL_KEY_TEXTS in features else EARLIER_FORMATS
    return known.get(name.removeprefix("format.")) if name.startswith("format.") else None
