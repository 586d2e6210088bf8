"""Errors of the client: one sentence that says what is wrong and what to do next. None contains a secret."""

from __future__ import annotations


class ClientError(Exception):
    """A request cannot be made, or has failed."""


class ConfigError(ClientError):
    """A kubeconfig file or a field of it is wrong; the text begins with the file and the field."""


class CredentialError(ClientError):
    """No credential can be had: a plugin, a token file or an identity provider failed."""


class StatusError(ClientError):
    """The server refused a request."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
