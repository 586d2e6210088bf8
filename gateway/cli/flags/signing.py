"""The flags of: signing of certificates."""

from __future__ import annotations

from typing import Any


def add_flags(group: Any) -> None:
    """None of these flags is implemented yet."""
