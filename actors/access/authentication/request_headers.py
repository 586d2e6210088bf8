"""The authenticating proxy: a proxy has authenticated the user and passes the identity in headers.

`Authenticator` calls this only for connections whose certificate a CA of --requestheader-client-ca-file issued; headers
of all other connections have no effect. The proxy must have an allowed common name. The headers are removed once they
are used, so that nothing after authentication sees them. Values are taken over unchanged, value by value: a header that
was sent twice has two values, and a comma does not separate values.

Two rules are stricter than those of Kubernetes. A user name header that occurs more than once is refused, because a
proxy that adds its header to that of a client would let the client choose; and so are names that are not UTF-8, because
two of them could be shown, and authorized, as the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

from actors.access.authentication.client_certificate import common_name
from actors.errors import Unauthorized
from actors.identity import User

_BAD_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")


class HeaderFields(Protocol):
    """The headers of a request: names are lower-case; `repeated` has those that were sent more than once."""

    headers: dict[bytes, bytes]
    repeated: dict[bytes, list[bytes]] | None


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """Names and prefixes are lower-case."""

    user_names: tuple[bytes, ...]
    groups: tuple[bytes, ...] = ()
    extra_prefixes: tuple[bytes, ...] = ()
    allowed_names: frozenset[str] = frozenset()  # empty: every common name

    def take_user(self, certificate: Mapping[str, Any], fields: HeaderFields) -> User | None:
        """The user whom a proxy with this certificate names, None if it names nobody. Unauthorized."""
        if self.allowed_names and common_name(certificate) not in self.allowed_names:
            return None
        name = self._user_name(fields)
        if not name:
            return None
        user = User(name, groups=self._groups(fields), extra=self._extra(fields))
        self._remove(fields)
        return user

    def _user_name(self, fields: HeaderFields) -> str:
        for header in self.user_names:
            if fields.repeated and header in fields.repeated:
                raise Unauthorized
            value = fields.headers.get(header)
            if value:
                return _text(value)
        return ""

    def _groups(self, fields: HeaderFields) -> tuple[str, ...]:
        return tuple(_text(value) for header in self.groups for value in _values(fields, header) if value)

    def _extra(self, fields: HeaderFields) -> tuple[tuple[str, tuple[str, ...]], ...]:
        found: dict[str, list[str]] = {}
        for prefix in self.extra_prefixes:
            for header in fields.headers:
                if header.startswith(prefix):
                    values = [_text(value) for value in _values(fields, header)]
                    found.setdefault(extra_key(header[len(prefix) :]), []).extend(values)
        return tuple((key, tuple(values)) for key, values in sorted(found.items()))

    def _remove(self, fields: HeaderFields) -> None:
        used = [name for name in fields.headers if self._reads(name)]
        for name in used:
            del fields.headers[name]
        if fields.repeated:  # requests with the same head share it
            fields.repeated = {name: values for name, values in fields.repeated.items() if name not in used}

    def _reads(self, name: bytes) -> bool:
        return name in self.user_names or name in self.groups or name.startswith(self.extra_prefixes)


def extra_key(name: bytes) -> str:
    """The rest of a lower-case header name, percent-decoded; a name with a bad escape stays as it is."""
    if _BAD_ESCAPE.search(name) is None:
        try:
            return unquote_to_bytes(name).decode()
        except UnicodeDecodeError:
            pass
    return name.decode("latin-1")


def _values(fields: HeaderFields, header: bytes) -> list[bytes]:
    repeated = fields.repeated.get(header) if fields.repeated else None
    if repeated is not None:
        return repeated
    value = fields.headers.get(header)
    return [] if value is None else [value]


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Unauthorized from None
