"""The ASGI 3 application for servers that import one, configured by the environment:

    REWOUND_DATA_DIR=data REWOUND_DIALECT=kubernetes hypercorn -k trio rewound.asgi:application

Every flag of `rewound serve` is a variable: `REWOUND_` and its name, in capitals, with underscores. A flag that may
occur more than once takes its values on lines of their own. The flags about listeners do not make it listen; with
`--secure-port` (the default) the certificates of the data folder are made, for the server's `--certfile` and clients.

`create_application(settings)` makes one of settings, for programs (docs/transports.md).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Final

from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import Settings
from rewound.server.application import Application
from rewound.server.failures import explain
from rewound.server.flags.parser import parse_flags
from rewound.testing.controlled import WITH_CONTROLS

logger = logging.getLogger(__name__)

_PREFIX: Final = "REWOUND_"
# Variables of clients and tests.
_OTHERS: Final = frozenset(("REWOUND_URL", "REWOUND_EXEC_PLUGINS", "REWOUND_FAILPOINT", "REWOUND_SEED"))


def create_application(settings: Settings) -> Application:
    return Application(settings, extensions=WITH_CONTROLS, explain=_explained)


def settings_of(environment: Mapping[str, str]) -> Settings:
    """The settings of the environment. Raises SettingsError that names the variable."""
    arguments = [
        f"{_flag(variable)}={value}"
        for variable, values in environment.items()
        if variable.startswith(_PREFIX) and variable not in _OTHERS
        for value in values.splitlines() or [""]
    ]
    try:
        settings, warnings = parse_flags(arguments)
    except SettingsError as error:
        variable = _PREFIX + error.flag.removeprefix("--").replace("-", "_").upper()
        text = str(error).removeprefix(f"{error.flag}: ")
        raise SettingsError(variable if variable in environment else error.flag, text) from error
    for warning in warnings:
        logger.warning("%s", warning)
    return settings


def _flag(variable: str) -> str:
    return "--" + variable.removeprefix(_PREFIX).lower().replace("_", "-")


def _explained(error: BaseException, settings: Settings | None) -> str:
    """An error that the operator can fix, in one sentence; others with their class."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, SettingsError):
        return str(error)
    known = explain(error, settings) if settings is not None else None
    return known or f"{type(error).__name__}: {error}"


application = Application(lambda: settings_of(os.environ), extensions=WITH_CONTROLS, explain=_explained)
