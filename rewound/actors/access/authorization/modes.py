"""Which authorizers a server has, in which order: the modes of --authorization-mode, or the file of
--authorization-config.

Both become an `AuthorizationConfiguration`, from which `rewound/server/authorization.py` creates the authorizers;
`configuration` reads the file. Flags are parsed with this module before anything about access is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from rewound.actors.access.authorization.match_conditions import MatchConditions

WEBHOOK: Final = "Webhook"
MODES = ("Node", "RBAC", "ABAC", "Webhook", "AlwaysAllow", "AlwaysDeny")


def parse_modes(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of modes. Raises ValueError for an unknown or repeated one."""
    modes = tuple(one.strip() for one in text.split(","))
    for index, mode in enumerate(modes):
        if mode not in MODES:
            raise ValueError(f"{mode!r} is not known; choose among {', '.join(MODES)}")
        if mode in modes[:index]:
            raise ValueError(f"{mode} occurs more than once; give every mode once, in the order of decision")
    return modes


class WebhookConfiguration(msgspec.Struct, frozen=True):
    kubeconfig: Path
    version: str  # of the SubjectAccessReview
    timeout: float = 30.0  # seconds, of one try
    authorized_ttl: float = 300.0  # seconds; 0: not cached
    unauthorized_ttl: float = 30.0
    denies_on_failure: bool = False
    conditions: MatchConditions | None = None  # None: it decides on every request


class AuthorizerConfiguration(msgspec.Struct, frozen=True):
    type: str  # a mode
    name: str
    webhook: WebhookConfiguration | None = None


class AuthorizationConfiguration(msgspec.Struct, frozen=True):
    authorizers: tuple[AuthorizerConfiguration, ...]

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.type for one in self.authorizers))


def of_flags(modes: Sequence[str], webhook: WebhookConfiguration | None) -> AuthorizationConfiguration:
    """Return the configuration of --authorization-mode; `webhook` is that of the mode Webhook."""
    return AuthorizationConfiguration(
        tuple(
            AuthorizerConfiguration(WEBHOOK, "default", webhook)
            if mode == WEBHOOK
            else AuthorizerConfiguration(mode, name_of(mode))
            for mode in modes
        )
    )


def name_of(mode: str) -> str:
    """Return the name that an authorizer other than a webhook must have."""
    return mode.lower()
