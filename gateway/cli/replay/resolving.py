"""What flags mean for a recording: moments of it, and settings of its server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.certificates.store import write_atomically
from actors.errors import BadRequest
from gateway.cli.access.flags import Options
from gateway.cli.journal.query.moments import Moment as Given
from gateway.replay.control import moment_at, parse_speed
from gateway.replay.player import Moment
from gateway.settings.checks import SettingsError
from gateway.settings.settings import Settings
from journal.recording import Recording


def given_settings(options: Options) -> dict[str, Any]:
    names = ("bind_address", "secure_port", "insecure_port", "token_auth_file")
    return {name: value for name in names if (value := getattr(options, name)) is not None}


@dataclass(frozen=True, slots=True)
class Span:
    """What --at or --from, --to and --speed mean for a recording; None where they are not given."""

    start: Moment | None
    to: Moment | None
    speed: float


def span_of(recording: Recording, options: Options) -> Span:
    """SettingsError."""
    first = "--at" if options.at else "--from"
    start = _resolve(recording, options.at or options.start, first)
    to = _resolve(recording, options.to, "--to")
    if start is not None and to is not None and to.version < start.version:
        raise SettingsError("--to", f"version {to.version} is before {first}, version {start.version}")
    try:
        speed = parse_speed(options.speed) if options.speed else 1.0
    except BadRequest as error:
        raise SettingsError("--speed", str(error).removeprefix("speed: ")) from error
    return Span(start, to, speed)


def _resolve(recording: Recording, given: Given | None, flag: str) -> Moment | None:
    """A moment of the command line; None for the end. SettingsError."""
    if given is None or given == Given():
        return None
    if given.time is not None:
        return moment_at(recording, given.time)
    assert given.offset is not None
    with recording.read_all() as view:
        first = view.floor
    if not first <= given.offset <= recording.end:
        raise SettingsError(
            flag, f"{given.offset} is not in the journal, which has {first} to {recording.end}"
        )
    return Moment(given.offset, 0)


def written_kubeconfig(wanted: Path | None, settings: Settings) -> Path:
    """The kubeconfig file of the server; a copy where `--kubeconfig` wants it, that nobody else can ever read."""
    if wanted is None:
        return settings.kubeconfig
    write_atomically(wanted, settings.kubeconfig.read_bytes(), 0o600)
    return wanted
