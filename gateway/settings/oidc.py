"""The settings of OpenID Connect."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """None of these flags is implemented yet."""
