"""The log of `rewound serve`: lines on standard error, or as the file of --server-config says."""

from __future__ import annotations

import logging
import sys

from rewound.gateway.settings.settings import Settings

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_STANDARD_ERROR = "-"


def configure_logging(settings: Settings) -> None:
    """Raises SettingsError if a file cannot be written, or Python's logging refuses the configuration."""
    keys = settings.server.keys
    target = keys.get("errorlog", _STANDARD_ERROR)
    try:
        logging.basicConfig(
            level=keys.get("loglevel", "INFO").upper(),
            format=_FORMAT,
            filename=None if target == _STANDARD_ERROR else target,
        )
    except OSError as error:
        raise settings.server.refuse("errorlog", f"{target}: {error.strerror}; give another file") from None
    for key in ("logconfig", "logconfig_dict"):
        if key in keys:
            _apply(settings, key)


def _apply(settings: Settings, key: str) -> None:
    from hypercorn.config import Config
    from hypercorn.logging import Logger

    try:
        Logger(Config.from_mapping({key: settings.server.keys[key], "errorlog": None}))
    except Exception as error:
        raise settings.server.refuse(key, f"Python's logging refuses it: {error}") from None


def print_error(text: str) -> None:
    print(f"rewound: {text}", file=sys.stderr, flush=True)
