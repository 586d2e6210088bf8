"""The labels and annotations that RBAC reads."""

from __future__ import annotations

from actors.names import Names


def autoupdate_key(names: Names) -> str:
    """The annotation that says whether a start reconciles a default role or binding; "false": it does not."""
    return names.key("autoupdate", "rbac.authorization")


def aggregate_label(names: Names, role: str) -> str:
    """The label of cluster roles that the default role `admin`, `edit` or `view` aggregates."""
    return f"{names.group('rbac.authorization')}/aggregate-to-{role}"
