"""Rewound, an event-sourced cluster API server: what programs import.

    from rewound import Rewound, RequestFailed      the type of the fixture, and what its requests raise
    with rewound.start() as server:                 the same server without pytest
    rewound.explore(controller, scenario)           property tests of controllers (docs/explore.md)
    rewound.asgi:application                        the server as an ASGI application
    python -m rewound serve                         the command

Its packages `actors`, `gateway` and `journal` also have links at the top of the repository, where documents name them;
everything is imported as `rewound.`, so that a project may have packages of these names itself. Names are imported on
first use: a test suite that does not use the fixture imports nothing but this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rewound.gateway.cli.fixture.errors import NoResponse, NotStarted, RequestFailed, ServerEnded
    from rewound.gateway.cli.fixture.pool import start
    from rewound.gateway.cli.fixture.rewound import Rewound
    from rewound.gateway.explore.explore import ExplorationFailed, explore
    from rewound.gateway.explore.invariants import Invariant
    from rewound.gateway.explore.parties import Api, AsyncApi

__all__ = [
    "Api",
    "AsyncApi",
    "ExplorationFailed",
    "Invariant",
    "NoResponse",
    "NotStarted",
    "RequestFailed",
    "Rewound",
    "ServerEnded",
    "explore",
    "start",
]

_MODULES = {
    "Api": "explore.parties",
    "AsyncApi": "explore.parties",
    "ExplorationFailed": "explore.explore",
    "Invariant": "explore.invariants",
    "NoResponse": "cli.fixture.errors",
    "NotStarted": "cli.fixture.errors",
    "RequestFailed": "cli.fixture.errors",
    "Rewound": "cli.fixture.rewound",
    "ServerEnded": "cli.fixture.errors",
    "explore": "explore.explore",
    "start": "cli.fixture.pool",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'rewound' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"rewound.gateway.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
