"""docs/decisions/0008-yaml.md: YAML bodies read and written on libyaml's events, and by PyYAML's constructors."""

from __future__ import annotations

from typing import Any

import yaml

from benchmarks.decisions.measure import Effort, compare, effort_of_command_line
from benchmarks.decisions.samples import config_map, pod
from rewound.gateway.wire.yaml import dump, load


def main(effort: Effort) -> None:
    for title, document in (("a ConfigMap of 1 kB", config_map()), ("a pod with 20 containers", pod(20))):
        _measure(title, document, effort)


def _measure(title: str, document: Any, effort: Effort) -> None:
    raw = yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False).encode()
    assert load(raw).value == yaml.load(raw, Loader=yaml.CSafeLoader) == document
    compare(
        f"read {title} ({len(raw)} bytes)",
        {
            "ours, on libyaml's events": lambda: load(raw),
            "yaml.CSafeLoader": lambda: yaml.load(raw, Loader=yaml.CSafeLoader),
            "yaml.SafeLoader": lambda: yaml.load(raw, Loader=yaml.SafeLoader),
        },
        effort,
    )
    compare(
        f"write {title}",
        {
            "ours, by libyaml's emitter": lambda: dump(document),
            "yaml.CSafeDumper": lambda: yaml.dump(document, Dumper=yaml.CSafeDumper),
        },
        effort,
    )


if __name__ == "__main__":
    main(effort_of_command_line())
