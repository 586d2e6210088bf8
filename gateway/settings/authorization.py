"""The settings of authorization by file and by webhook."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationSettings:
    """None of these flags is implemented yet."""
