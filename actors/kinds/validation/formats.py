"""Further formats of names and paths, for some kinds only: like `checks`, they return the texts of what is wrong."""

from __future__ import annotations

import re
from typing import Final

from actors.kinds.validation.checks import at_most, dns_subdomain, explained, size
from actors.kinds.validation.field_errors import FieldErrors, invalid, required

_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD: Final = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_URL_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_is_1035_label = re.compile(_LABEL_1035).fullmatch
_is_wildcard = re.compile(_WILDCARD).fullmatch
_is_url_path = re.compile(_URL_PATH).fullmatch
_is_port_name = re.compile("[-a-z0-9]+").fullmatch
_has_letter = re.compile("[a-z]").search


def dns_1035_label(value: str) -> list[str]:
    """A DNS-1035 label, which does not start with a digit: names of services."""
    wrong = [at_most(63)] if size(value) > 63 else []
    if _is_1035_label(value):
        return wrong
    text = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
        "start with an alphabetic character, and end with an alphanumeric character"
    )
    return [*wrong, explained(text, _LABEL_1035, "my-name", "abc-123")]


def name_is_1035_label(name: str, prefix: bool) -> list[str]:
    cut = prefix and len(name) > 1 and name.endswith("-")
    return dns_1035_label(name[:-2] + "a" if cut else name)


def wildcard_subdomain(value: str) -> list[str]:
    wrong = [at_most(253)] if size(value) > 253 else []
    if _is_wildcard(value):
        return wrong
    text = (
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must "
        "consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
    )
    return [*wrong, explained(text, _WILDCARD, "*.example.com")]


def port_name(value: str) -> list[str]:
    """The name of a port, as in the IANA registry of service names."""
    wrong = [at_most(15)] if size(value) > 15 else []
    if not _is_port_name(value):
        wrong.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _has_letter(value):
        wrong.append("must contain at least one letter (a-z)")
    if "--" in value:
        wrong.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        wrong.append("must not begin or end with a hyphen")
    return wrong


def domain_prefixed_path(errors: FieldErrors, field: str, value: str) -> None:
    """A domain, a slash, and a path as in a URL."""
    if not value:
        errors.add(required(field))
        return
    host, _, path = value.partition("/")
    if not host or not path:
        errors.add(invalid(field, value, 'must be a domain-prefixed path (such as "acme.io/foo")'))
        return
    errors.add_each(field, host, dns_subdomain(host))
    if not _is_url_path(path):
        errors.add(invalid(field, path, f"Invalid path (regex used for validation is '{_URL_PATH}')"))
