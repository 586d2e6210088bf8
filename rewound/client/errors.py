"""Errors of the client, each one sentence that says what is wrong and what to do next, and warnings of the server.

None contains a secret.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable


class Failure(Exception):
    """A command has failed; its exit code is 1."""


class UsageError(Exception):
    """The arguments of a command are wrong; its exit code is 2."""


class ClientError(Exception):
    """A request cannot be made, or has failed."""


class ConfigError(ClientError):
    """A kubeconfig file or a field of it is wrong; the text begins with the file and the field."""


class CredentialError(ClientError):
    """There is no credential, because a plugin, a token file or an identity provider failed."""


class NoDocument(ClientError):
    """The server responded with something else than a JSON object."""


class StatusError(ClientError):
    """The server refused a request."""

    def __init__(self, code: int, reason: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after = retry_after  # seconds after which the server asks to try again; None: it does not


# RFC 7234, 5.5, as API servers send it: 299 - "text".
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def print_warnings(headers: Iterable[str]) -> None:
    """Print the texts of `Warning` headers, if they have the form that API servers send."""
    for value in headers:
        for text in _WARNING.findall(value):
            print_warning(re.sub(r"\\(.)", r"\1", text))


def print_warning(text: str) -> None:
    shown = "".join(one if one.isprintable() else " " for one in text)
    print(f"Warning: {shown}", file=sys.stderr, flush=True)
