"""RBAC without stored roles: allows what the default cluster roles of everybody allow.

The rules are those of system:public-info-viewer, system:discovery and system:basic-user. Roles and bindings that
clients store are not read yet: users outside system:masters may only review their own access, and nothing else of any
resource.
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
    """Users may review their own access."""
    reviews = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
    return ResourceRule(("create",), (names.group("authorization"),), reviews)


class Rbac:
    def __init__(self, names: Names) -> None:
        authenticated = Rules((basic_user(names),), (DISCOVERY, PUBLIC_INFO))
        self._granted = {AUTHENTICATED: authenticated, UNAUTHENTICATED: Rules(paths=(PUBLIC_INFO,))}

    def authorize(self, attributes: Attributes) -> Decision:
        granted = self._rules_of(attributes.user)
        if attributes.is_resource:
            allowed = any(rule.allows(attributes) for rules in granted for rule in rules.resources)
        else:
            allowed = any(rule.allows(attributes) for rules in granted for rule in rules.paths)
        return ALLOWED if allowed else NO_OPINION

    def rules(self, user: User, namespace: str) -> Rules:
        if MASTERS in user.groups:
            return EVERYTHING
        granted = list(self._rules_of(user))
        return Rules(
            tuple(rule for rules in granted for rule in rules.resources),
            tuple(rule for rules in granted for rule in rules.paths),
        )

    def _rules_of(self, user: User) -> Iterable[Rules]:
        return [self._granted[group] for group in user.groups if group in self._granted]
