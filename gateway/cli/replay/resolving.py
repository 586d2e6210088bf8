"""What flags mean for a recording: moments of it, and settings of its server."""

from __future__ import annotations

from typing import Any

from gateway.cli.access.flags import Options
from gateway.cli.journal.query.moments import Moment as Given
from gateway.replay.control import moment_at
from gateway.replay.player import Moment
from gateway.settings.checks import SettingsError
from journal.recording import Recording


def given_settings(options: Options) -> dict[str, Any]:
    names = ("bind_address", "secure_port", "insecure_port", "token_auth_file")
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def resolve(recording: Recording, given: Given | None) -> Moment | None:
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
            "MOMENT", f"{given.offset} is not in the journal, which has {first} to {recording.end}"
        )
    return Moment(given.offset, 0)
