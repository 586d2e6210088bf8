"""Lets all servers and stores of a test process share their kinds: declared once, and compiled on first use.

Catalogs and definitions never change, so a test sees no difference, except that it takes half the time. A test that
adds a group gets separate catalogs.
"""

from __future__ import annotations

from rewound.actors.kinds import built_in as module
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.enablement import DEFAULT, Enablement
from rewound.actors.names import Names
from rewound.actors.profile import Rules, default_rules
from rewound.actors.versions.features import V1_25, Release

_declare = module.built_in
_catalogs: dict[tuple[object, ...], Catalog] = {}


def _built_in(
    names: Names,
    release: Release = V1_25,
    enabled: Enablement = DEFAULT,
    rules: Rules | None = None,
) -> Catalog:
    rules = rules or default_rules(names.dialect)
    key = names, release, repr(enabled), rules, module._GROUPS
    if key not in _catalogs:
        _catalogs[key] = _declare(names, release, enabled, rules)
    return _catalogs[key]


def share_kinds() -> None:
    """Share the kinds. Call it before any other module imports the function."""
    module.built_in = _built_in
