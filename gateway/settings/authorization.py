"""The settings of authorization by file and by webhook: each needs its mode, and each mode needs its file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from gateway.settings.checks import SettingsError, check_file


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationSettings:
    authorization_policy_file: Path | None = None

    def __post_init__(self) -> None:
        check_file("--authorization-policy-file", self.authorization_policy_file)

    def check_modes(self, modes: Collection[str]) -> None:
        """Refuse a mode without its file, and a file without its mode."""
        _check_mode("ABAC", modes, "--authorization-policy-file", self.authorization_policy_file)


def _check_mode(mode: str, modes: Collection[str], flag: str, path: Path | None) -> None:
    if mode in modes and path is None:
        raise SettingsError(flag, f"is missing; --authorization-mode={mode} needs it")
    if mode not in modes and path is not None:
        raise SettingsError(
            flag, f"has no effect without {mode} in --authorization-mode; add it or leave this out"
        )
