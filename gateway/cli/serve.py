"""`rewound serve`: flags to settings, settings to a running server, failures to sentences."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gateway.cli.banner import banner
from gateway.cli.flags import parse_flags
from gateway.settings import Addresses, Settings, SettingsError


def serve(arguments: Sequence[str]) -> int:
    try:
        settings, warnings = parse_flags(arguments)
    except SettingsError as error:
        _say(str(error))
        return 2
    for warning in warnings:
        _say(f"warning: {warning}")
    return _run(settings)


def _run(settings: Settings) -> int:
    # Loaded only now: a mistake in the flags should not take as long as a start.
    import logging

    import trio

    from gateway import compose
    from gateway.cli.failures import explain
    from gateway.cli.memory import keep_memory

    keep_memory()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")

    def announce(addresses: Addresses) -> None:
        print(banner(settings, addresses), flush=True)

    try:
        trio.run(compose.serve, settings, announce)
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        said = explain(error, settings)
        if said is None:
            raise
        _say(said)
        return 1
    return 0


def _say(text: str) -> None:
    print(f"rewound: {text}", file=sys.stderr, flush=True)
