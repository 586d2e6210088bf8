"""WebhookClientConfig: validation of the URL or service at which the server calls a webhook."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote, urlsplit

from rewound.actors.kinds.validation import (
    FieldErrors,
    dns_subdomain,
    invalid,
    port_number,
    required,
    reworded,
)
from rewound.actors.versions.features import HOST_SPECIFIED, SERVICE_REQUIRED

FORM: Final = "; desired format: https://host[/path]"


def url_rules(errors: FieldErrors, url: str, field: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        errors.add(required(field, f"url must be a valid URL: {error}{FORM}"))
        return
    user, at, host = parts.netloc.rpartition("@")
    if parts.scheme != "https":
        errors.add(invalid(field, parts.scheme, f"'https' is the only allowed URL scheme{FORM}"))
    if not host:
        text = reworded(f"host must be provided{FORM}", HOST_SPECIFIED, f"host must be specified{FORM}")
        errors.add(invalid(field, host, text))
    if at:
        errors.add(invalid(field, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.add(invalid(field, unquote(parts.fragment), "fragments are not permitted in the URL"))
    if parts.query:
        errors.add(invalid(field, parts.query, "query parameters are not permitted in the URL"))


def service_rules(
    errors: FieldErrors, name: str, namespace: str, path: str | None, port: int, field: str
) -> None:
    if not name:
        errors.add(required(f"{field}.name", reworded("service name is required", SERVICE_REQUIRED, "")))
    if not namespace:
        text = reworded("service namespace is required", SERVICE_REQUIRED, "")
        errors.add(required(f"{field}.namespace", text))
    wrong = port_number(port)
    if wrong:
        errors.add(invalid(f"{field}.port", port, f"port is not valid: {', '.join(wrong)}"))
    _path_rules(errors, path or "/", f"{field}.path")


def _path_rules(errors: FieldErrors, path: str, field: str) -> None:
    if path == "/":
        return
    if path == "//":
        errors.add(invalid(field, path, "segment[0] may not be empty"))
        return
    if not path.startswith("/"):
        errors.add(invalid(field, path, "must start with a '/'"))
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            errors.add(invalid(field, path, f"segment[{index}] may not be empty"))
            continue
        for text in dns_subdomain(step):
            errors.add(invalid(field, path, f"segment[{index}]: {text}"))
