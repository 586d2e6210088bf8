"""The rights that every cluster starts with: everything to system:masters, and a few paths to others.

This is the part of role-based access control that needs no stored roles. It is written as the roles of a
fresh cluster are (system:public-info-viewer, system:discovery), so that stored roles and bindings join it
without a change for those who ask. Until they do, nobody outside system:masters may touch a resource.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from actors.access.authorize import ALLOWED, NO_OPINION, Attributes, Decision
from actors.access.identity import AUTHENTICATED, MASTERS, UNAUTHENTICATED, User


@dataclass(frozen=True, slots=True)
class PathRule:
    """Verbs on paths; a path that ends in `*` stands for all that begin so."""

    verbs: frozenset[str]
    paths: tuple[str, ...]

    def allows(self, attributes: Attributes) -> bool:
        return attributes.verb in self.verbs and any(_covers(path, attributes.path) for path in self.paths)


def _covers(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


_READ = frozenset(["get"])
PUBLIC_INFO = PathRule(_READ, ("/healthz", "/livez", "/readyz", "/version", "/version/"))
DISCOVERY = PathRule(
    _READ, ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *PUBLIC_INFO.paths)
)
_BINDINGS = (
    (AUTHENTICATED, DISCOVERY),
    (AUTHENTICATED, PUBLIC_INFO),
    (UNAUTHENTICATED, PUBLIC_INFO),
)


class Rbac:
    def __init__(self, bindings: Iterable[tuple[str, PathRule]] = _BINDINGS) -> None:
        self._rules: dict[str, list[PathRule]] = {}
        for group, rule in bindings:
            self._rules.setdefault(group, []).append(rule)

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        if MASTERS in user.groups:
            return ALLOWED
        if not attributes.is_resource and self._allows_path(user, attributes):
            return ALLOWED
        return NO_OPINION

    def _allows_path(self, user: User, attributes: Attributes) -> bool:
        return any(rule.allows(attributes) for group in user.groups for rule in self._rules.get(group, ()))
