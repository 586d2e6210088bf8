"""The flags of: OpenID Connect."""

from __future__ import annotations

from typing import Any


def add_flags(group: Any) -> None:
    """None of these flags is implemented yet."""
