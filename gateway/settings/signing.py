"""The settings of signing of certificates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningSettings:
    """None of these flags is implemented yet."""
