"""Access rules: verbs on resources, and verbs on non-resource paths.

Authorizers list them for a SelfSubjectRulesReview; RBAC compiles its own from roles (`authorization/rbac/roles.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class PathRule:
    """Verbs on paths; a path that ends in `*` matches all paths with that prefix."""

    verbs: tuple[str, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """Verbs on resources of groups; with `names`, only on objects with these names."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that a user may do in a namespace, as far as the authorizers can list it."""

    resources: tuple[ResourceRule, ...] = ()
    paths: tuple[PathRule, ...] = ()
    errors: tuple[str, ...] = ()  # why rules are missing
    incomplete: bool = False  # an authorizer cannot list its rules


NO_RULES: Final = Rules()
EVERYTHING: Final = Rules((ResourceRule((ANY,), (ANY,), (ANY,)),), (PathRule((ANY,), (ANY,)),))
