"""The settings of the token webhook: without a configuration file there is none, and the others have no effect."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gateway.settings.checks import REVIEW_VERSIONS, check_choice, check_file, refuse_without


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWebhookSettings:
    authentication_token_webhook_config_file: Path | None = None
    authentication_token_webhook_cache_ttl: float = 120.0  # seconds; 0: every request calls the webhook
    authentication_token_webhook_version: str = "v1beta1"

    def __post_init__(self) -> None:
        check_file(
            "--authentication-token-webhook-config-file", self.authentication_token_webhook_config_file
        )
        version = self.authentication_token_webhook_version
        check_choice("--authentication-token-webhook-version", version, REVIEW_VERSIONS)
        if self.authentication_token_webhook_config_file is None:
            refuse_without(self, "--authentication-token-webhook-config-file")
