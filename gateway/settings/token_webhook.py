"""The settings of the token webhook."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWebhookSettings:
    """None of these flags is implemented yet."""
