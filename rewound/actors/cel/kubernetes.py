"""The libraries that Kubernetes adds to CEL after v1.25: their types, declarations and functions.

`DECLARATIONS` are read by `declarations`, by the feature that a language must have; `FUNCTIONS` are what runs: the
name of the function, the overload, the classes of its arguments, and the function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rewound.actors.cel import authorizer
from rewound.actors.cel.authorizer import Authorizer, Decision, GroupCheck, PathCheck, ResourceCheck
from rewound.actors.versions.features import CEL_AUTHORIZER, CEL_AUTHORIZER_ERRORS, CEL_SELECTORS

# The types by their names in declarations.
TYPES: Final = {
    "authorizer": Authorizer.type_name,
    "path_check": PathCheck.type_name,
    "group_check": GroupCheck.type_name,
    "resource_check": ResourceCheck.type_name,
    "decision": Decision.type_name,
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
]
