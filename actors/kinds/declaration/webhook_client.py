"""How the server reaches a webhook: rules of its URL, and of the service behind which it is."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote, urlsplit

from actors.kinds.validation.checks import FieldError, dns_subdomain, invalid, port_number, required

FORM: Final = "; desired format: https://host[/path]"


def url_rules(url: str, field: str) -> list[FieldError]:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return [required(field, f"url must be a valid URL: {error}{FORM}")]
    user, at, host = parts.netloc.rpartition("@")
    errors: list[FieldError] = []
    if parts.scheme != "https":
        errors.append(invalid(field, parts.scheme, f"'https' is the only allowed URL scheme{FORM}"))
    if not host:
        errors.append(invalid(field, host, f"host must be provided{FORM}"))
    if at:
        errors.append(invalid(field, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(field, unquote(parts.fragment), "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(field, parts.query, "query parameters are not permitted in the URL"))
    return errors


def service_rules(name: str, namespace: str, path: str | None, port: int, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not name:
        errors.append(required(f"{field}.name", "service name is required"))
    if not namespace:
        errors.append(required(f"{field}.namespace", "service namespace is required"))
    wrong = port_number(port)
    if wrong:
        errors.append(invalid(f"{field}.port", port, f"port is not valid: {', '.join(wrong)}"))
    return errors + _path_rules(path or "/", f"{field}.path")


def _path_rules(path: str, field: str) -> list[FieldError]:
    if path == "/":
        return []
    if path == "//":
        return [invalid(field, path, "segment[0] may not be empty")]
    errors = [] if path.startswith("/") else [invalid(field, path, "must start with a '/'")]
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(field, path, f"segment[{index}] may not be empty"))
            continue
        errors += [invalid(field, path, f"segment[{index}]: {text}") for text in dns_subdomain(step)]
    return errors
