"""Formats times of events: local and short for people, RFC 3339 in UTC for programs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _moment(micros: int) -> datetime:
    # Not fromtimestamp: a float would round the last microsecond.
    return _EPOCH + timedelta(microseconds=micros)


def local(micros: int) -> str:
    return _moment(micros).astimezone().isoformat(" ", "milliseconds")[:23]


def clock(micros: int) -> str:
    """For a terminal: without the date when it is today."""
    text, today = local(micros), datetime.now().astimezone().date().isoformat()
    return text.removeprefix(f"{today} ")


def exact(micros: int) -> str:
    """With microseconds and UTC offset."""
    return _moment(micros).astimezone().isoformat(" ", "microseconds")


def rfc3339(micros: int) -> str:
    return _moment(micros).isoformat("T", "microseconds").replace("+00:00", "Z")


def span(seconds: float) -> str:
    """The two largest units: 3d4h, 12m30s, 8.2s."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    left = int(seconds)
    parts: list[str] = []
    for name, length in units:
        number, left = divmod(left, length)
        if number or parts:
            parts.append(f"{number}{name}")
    return "".join(parts[:2])
