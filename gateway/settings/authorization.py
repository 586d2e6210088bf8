"""The settings of authorization by file and by webhook: each needs its mode, and each mode needs its file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from gateway.settings.checks import REVIEW_VERSIONS, SettingsError, check_choice, check_file, refuse_without


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationSettings:
    authorization_policy_file: Path | None = None
    authorization_webhook_config_file: Path | None = None
    authorization_webhook_cache_authorized_ttl: float = 300.0  # seconds; 0: not cached
    authorization_webhook_cache_unauthorized_ttl: float = 30.0
    authorization_webhook_version: str = "v1beta1"

    def __post_init__(self) -> None:
        check_file("--authorization-policy-file", self.authorization_policy_file)
        check_file("--authorization-webhook-config-file", self.authorization_webhook_config_file)
        check_choice("--authorization-webhook-version", self.authorization_webhook_version, REVIEW_VERSIONS)

    def check_modes(self, modes: Collection[str]) -> None:
        """Refuse a mode without its file, and a file without its mode."""
        _check_mode("ABAC", modes, "--authorization-policy-file", self.authorization_policy_file)
        config_file = self.authorization_webhook_config_file
        _check_mode("Webhook", modes, "--authorization-webhook-config-file", config_file)
        if "Webhook" not in modes:
            refuse_without(self, "Webhook in --authorization-mode", "authorization_webhook_")


def _check_mode(mode: str, modes: Collection[str], flag: str, path: Path | None) -> None:
    if mode in modes and path is None:
        raise SettingsError(flag, f"is missing; --authorization-mode={mode} needs it")
    if mode not in modes and path is not None:
        raise SettingsError(
            flag, f"has no effect without {mode} in --authorization-mode; add it or leave this out"
        )
