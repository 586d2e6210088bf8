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

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rewound.testing.explore.explore import ExplorationFailed, explore
    from rewound.testing.explore.invariants import Invariant
    from rewound.testing.explore.parties import Api, AsyncApi
    from rewound.testing.fixture.failures import NoResponse, NotStarted, RequestFailed, ServerEnded
    from rewound.testing.fixture.pool import start
    from rewound.testing.fixture.rewound import Rewound

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
    "Api": "testing.explore.parties",
    "AsyncApi": "testing.explore.parties",
    "ExplorationFailed": "testing.explore.explore",
    "Invariant": "testing.explore.invariants",
    "NoResponse": "testing.fixture.failures",
    "NotStarted": "testing.fixture.failures",
    "RequestFailed": "testing.fixture.failures",
    "Rewound": "testing.fixture.rewound",
    "ServerEnded": "testing.fixture.failures",
    "explore": "testing.explore.explore",
    "start": "testing.fixture.pool",
}


def platform_refusal(platform: str = sys.platform) -> str:
    """Why Rewound does not run on this platform, and what to do; empty if it does.

    Importing this module must not fail there: pytest loads our plugin into every test run.
    """
    if platform != "win32":
        return ""
    return (
        "Rewound does not run on Windows: it needs fork, file locks and signals of Linux or macOS. "
        "Install it in WSL 2 (`wsl --install`, then the same commands in its terminal), or use the container."
    )


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'rewound' has no attribute {name!r}")
    if refusal := platform_refusal():
        raise ImportError(refusal)
    from importlib import import_module

    found = getattr(import_module(f"rewound.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
