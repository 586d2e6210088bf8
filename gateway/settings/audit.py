"""The settings of the audit log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """None of these flags is implemented yet."""
