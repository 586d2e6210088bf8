"""Imports modules that requests need and a start does not, in a thread, soon after the server is ready.

So neither the start nor the first client that needs one of them waits. A process that forks servers imports them
before.
"""

from __future__ import annotations

import gc
import logging
from typing import Final

import trio

from rewound.actors.kinds.schema import pydantic_decoder
from rewound.actors.runtime.background_import import imported

logger = logging.getLogger(__name__)

PYDANTIC: Final = "pydantic_core"
USED_LATER: Final = (
    "rewound.gateway.connections.http2.connection",
    PYDANTIC,
    "rewound.gateway.wire.yaml.reader",
    "rewound.gateway.wire.yaml.writer",
)
# The interpreter runs one thread at a time: clients that have waited for the server to become ready come first.
_FIRST_REQUESTS: Final = 1.0  # second


async def import_used_later() -> None:
    """Import the modules. Until then, bodies are decoded without pydantic-core (`pydantic_decoder.postponed`)."""
    await trio.sleep(_FIRST_REQUESTS)
    for name in USED_LATER:
        await _import(name)
        if name == PYDANTIC:
            pydantic_decoder.resume()
    gc.freeze()  # modules stay: later collections need not visit them


async def _import(name: str) -> None:
    try:
        await imported(name)
    except Exception as error:
        # Such as a lack of file descriptors, in any library: its first user imports it again.
        logger.warning("%s was not imported in advance: %s", name, error)
