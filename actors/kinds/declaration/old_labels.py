"""Labels of nodes that have newer names: using an old one works, and is warned of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.messages import Object
from actors.names import Names

OldLabels = Mapping[str, str]  # the old key -> what is said of it


def old_labels(names: Names) -> OldLabels:
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


def warn_of_requirements(known: OldLabels, requirements: Iterable[Object], field: str) -> list[str]:
    """Of the expressions of a selector at `field`."""
    return [
        f"{field}[{index}].key: {one['key']} is {known[one['key']]}"
        for index, one in enumerate(requirements)
        if one["key"] in known
    ]


def warn_of_labels(known: OldLabels, labels: Iterable[str], field: str) -> list[str]:
    return [f"{field}: {known[key]}" for key in labels if key in known]
