"""Node labels that have been renamed: the old names work, with a warning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.messages import Object
from actors.names import Names

DeprecatedLabels = Mapping[str, str]  # the old key -> text of the warning


def deprecated_labels(names: Names) -> DeprecatedLabels:
    return {
        names.key(old, prefix): f'deprecated since {since}; use "{names.key(new, new_prefix)}" instead'
        for old, prefix, since, new, new_prefix in (
            ("arch", "beta", "v1.14", "arch", ""),
            ("os", "beta", "v1.14", "os", ""),
            ("region", "failure-domain.beta", "v1.17", "region", "topology"),
            ("zone", "failure-domain.beta", "v1.17", "zone", "topology"),
            ("instance-type", "beta", "v1.17", "instance-type", "node"),
        )
    }


def requirement_warnings(known: DeprecatedLabels, requirements: Iterable[Object], field: str) -> list[str]:
    """Warnings about the expressions of the selector at `field`."""
    return [
        f"{field}[{index}].key: {one['key']} is {known[one['key']]}"
        for index, one in enumerate(requirements)
        if one["key"] in known
    ]


def label_warnings(known: DeprecatedLabels, labels: Iterable[str], field: str) -> list[str]:
    return [f"{field}: {known[key]}" for key in labels if key in known]
