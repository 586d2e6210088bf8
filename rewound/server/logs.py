"""The log of `rewound serve`: lines on standard error, as text or JSON, or as the file of --server-config says.

Whatever clients, webhooks or a failing disk make happen again and again must not fill the log: of the lines of one call
of the logger at most 20 a minute are written, of those with the same text 5. What was left out is counted in a line of
its own, which is written with the first line after that minute, whatever it is about, or when the server ends.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from rewound.gateway.settings.settings import Settings

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_STANDARD_ERROR = "-"
_MINUTE: Final = 60.0
_MOST_LINES, _MOST_OF_A_TEXT = 20, 5
# Calls of the logger that are counted at the same time; there are fewer in this program.
_MOST_CALLS: Final = 1000
_LEFT_OUT: Final = "%d more lines like this were left out in the last %.0f s: %s"


def configure_logging(settings: Settings) -> None:
    """Raises SettingsError if a file cannot be written, or Python's logging refuses the configuration."""
    keys = settings.server.keys
    others = logging.getLogger().handlers[:]  # of a program that runs a server, such as pytest
    target = keys.get("errorlog", _STANDARD_ERROR)
    try:
        logging.basicConfig(
            level=(settings.log.log_level or keys.get("loglevel", "INFO")).upper(),
            format=_FORMAT,
            filename=None if target == _STANDARD_ERROR else target,
        )
    except OSError as error:
        raise settings.server.refuse("errorlog", f"{target}: {error.strerror}; give another file") from None
    if settings.log.log_format == "json":
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines())
    for key in ("logconfig", "logconfig_dict"):
        if key in keys:
            _apply(settings, key)
    for handler in logging.getLogger().handlers:
        if handler not in others:
            handler.addFilter(RepeatedLines(handler))


def _apply(settings: Settings, key: str) -> None:
    from hypercorn.config import Config
    from hypercorn.logging import Logger

    try:
        Logger(Config.from_mapping({key: settings.server.keys[key], "errorlog": None}))
    except Exception as error:
        raise settings.server.refuse(key, f"Python's logging refuses it: {error}") from None


class JsonLines(logging.Formatter):
    """A JSON document for each line; `error` has the traceback, if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{when}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class _Minute(msgspec.Struct):
    """The lines of one call of the logger, since the first of them."""

    began: float
    texts: Counter[str] = msgspec.field(default_factory=Counter)
    left_out: logging.LogRecord | None = None  # the first
    count: int = 0


class RepeatedLines(logging.Filter):
    """Leaves out lines of a handler that repeat, and counts them."""

    def __init__(self, handler: logging.Handler, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._handler, self._now = handler, now
        self._minutes: dict[tuple[str, str], _Minute] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.INFO or record.msg is _LEFT_OUT:
            return True
        now = self._now()
        self.report(now - _MINUTE)
        call = (record.name, str(record.msg))
        if call not in self._minutes and len(self._minutes) == _MOST_CALLS:
            return True
        minute = self._minutes.setdefault(call, _Minute(now))
        text = record.getMessage()
        if minute.texts[text] < _MOST_OF_A_TEXT and minute.texts.total() < _MOST_LINES:
            minute.texts[text] += 1
            return True
        minute.left_out = minute.left_out or record
        minute.count += 1
        return False

    def report(self, until: float | None = None) -> None:
        """Write how many lines were left out in the minutes that began until then, by default in all."""
        now = self._now()
        for call, minute in list(self._minutes.items()):
            if until is not None and minute.began > until:
                continue
            del self._minutes[call]
            if minute.left_out is not None:
                like = minute.left_out
                values = (minute.count, now - minute.began, like.getMessage())
                self._handler.handle(
                    logging.LogRecord(
                        like.name, like.levelno, like.pathname, like.lineno, _LEFT_OUT, values, None
                    )
                )


def report_left_out() -> None:
    """Write how many lines were left out since the last report: the process ends."""
    for handler in logging.getLogger().handlers:
        for one in handler.filters:
            if isinstance(one, RepeatedLines):
                one.report()


def print_error(text: str) -> None:
    print(f"rewound: {text}", file=sys.stderr, flush=True)
