"""RBAC without stored roles: everything to system:masters, and what a fresh cluster's default roles give to others.

The rules are those of system:public-info-viewer, system:discovery and system:basic-user. Roles and bindings that
clients store are not consulted yet: nobody outside system:masters may do anything to a resource but review their
own access.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.access.attributes import Attributes
from actors.access.authorize import ALLOWED, NO_OPINION, Decision
from actors.access.rules import EVERYTHING, PathRule, ResourceRule, Rules
from actors.identity import AUTHENTICATED, MASTERS, UNAUTHENTICATED, User
from actors.names import Names

PUBLIC_INFO = PathRule(("get",), ("/healthz", "/livez", "/readyz", "/version", "/version/"))
DISCOVERY = PathRule(
    ("get",), ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *PUBLIC_INFO.paths)
)


def basic_user(names: Names) -> ResourceRule:
    """Reviews of one's own access."""
    reviews = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
    return ResourceRule(("create",), (names.group("authorization"),), reviews)


class Rbac:
    def __init__(self, names: Names) -> None:
        signed_in = Rules((basic_user(names),), (DISCOVERY, PUBLIC_INFO))
        self._granted = {AUTHENTICATED: signed_in, UNAUTHENTICATED: Rules(paths=(PUBLIC_INFO,))}

    def authorize(self, attributes: Attributes) -> Decision:
        user = attributes.user
        if MASTERS in user.groups:
            return ALLOWED
        granted = self._of(user)
        if attributes.is_resource:
            allowed = any(rule.allows(attributes) for rules in granted for rule in rules.resources)
        else:
            allowed = any(rule.allows(attributes) for rules in granted for rule in rules.paths)
        return ALLOWED if allowed else NO_OPINION

    def rules(self, user: User, namespace: str) -> Rules:
        if MASTERS in user.groups:
            return EVERYTHING
        granted = list(self._of(user))
        return Rules(
            tuple(rule for rules in granted for rule in rules.resources),
            tuple(rule for rules in granted for rule in rules.paths),
        )

    def _of(self, user: User) -> Iterable[Rules]:
        return [self._granted[group] for group in user.groups if group in self._granted]
