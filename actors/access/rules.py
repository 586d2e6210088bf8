"""Access rules: verbs on resources, and verbs on non-resource paths.

Roles contain them, authorizers match requests against them, and a SelfSubjectRulesReview lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actors.access.attributes import Attributes

ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class PathRule:
    """Verbs on paths; a path that ends in `*` matches all paths with that prefix."""

    verbs: tuple[str, ...]
    paths: tuple[str, ...]

    def allows(self, attributes: Attributes) -> bool:
        return _lists(self.verbs, attributes.verb) and any(
            _covers(path, attributes.path) for path in self.paths
        )


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """Verbs on resources of groups."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]

    def allows(self, attributes: Attributes) -> bool:
        resource = attributes.resource
        if attributes.subresource:
            resource += f"/{attributes.subresource}"
        return (
            _lists(self.verbs, attributes.verb)
            and _lists(self.groups, attributes.group)
            and _lists(self.resources, resource)
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that a user may do in a namespace, as far as the authorizers can list it."""

    resources: tuple[ResourceRule, ...] = ()
    paths: tuple[PathRule, ...] = ()
    errors: tuple[str, ...] = ()  # why rules are missing; with one, the list is incomplete


NO_RULES: Final = Rules()
EVERYTHING: Final = Rules((ResourceRule((ANY,), (ANY,), (ANY,)),), (PathRule((ANY,), (ANY,)),))


def _lists(allowed: tuple[str, ...], wanted: str) -> bool:
    return ANY in allowed or wanted in allowed


def _covers(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith(ANY) else path == pattern
