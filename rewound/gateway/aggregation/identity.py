"""The header fields by which an aggregated server learns who the user is, and those of clients that never reach it.

X-Remote-User: jane    X-Remote-Group: dev    X-Remote-Group: system:authenticated    X-Remote-Extra-Scopes: a
"""

from __future__ import annotations

import re
from typing import Final

from rewound.actors.access.authentication.authenticate import RequestHeaders
from rewound.actors.identity import User

Field = tuple[bytes, bytes]

_USER, _GROUP, _EXTRA = b"x-remote-user", b"x-remote-group", b"x-remote-extra-"
_TOKEN: Final = re.compile(rb"[!#$&'*+.^_`|~0-9A-Za-z-]")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
# Fields about the user, in any spelling that a server may accept: some take "_" for "-".
_ABOUT_USER: Final = (b"x-remote-", b"impersonate-", b"authorization", b"proxy-authorization")


class UnusableIdentity(Exception):
    """The name, a group or an extra value of the user cannot be sent in a header."""


def user_fields(user: User) -> list[Field]:
    """The fields for a user. Raises UnusableIdentity."""
    fields = [(_USER, _value(user.name)), *((_GROUP, _value(group)) for group in user.groups)]
    for key, values in user.extra:
        fields.extend((_EXTRA + _escaped(key), _value(value)) for value in values)
    return fields


def _value(text: str) -> bytes:
    value = text.encode("utf-8", "surrogateescape")
    if _CONTROL.search(value) is not None or value != value.strip(b" \t"):
        raise UnusableIdentity  # the other server would read other fields, or the name of another user
    return value


def _escaped(key: str) -> bytes:
    """A key as part of a header name: characters that are not allowed there are percent-encoded."""
    encoded = key.encode("utf-8", "surrogateescape")
    return b"".join(bytes((one,)) if _TOKEN.match(bytes((one,))) else b"%%%02X" % one for one in encoded)


def is_about_user(name: bytes, proxy_headers: RequestHeaders | None) -> bool:
    """Whether a client's header field is about the user; such fields are never forwarded."""
    spelled = name.lower().replace(b"_", b"-")
    if spelled.startswith(_ABOUT_USER):
        return True
    if proxy_headers is None:
        return False
    names = (*proxy_headers.user_names, *proxy_headers.groups)
    return name in names or name.startswith(proxy_headers.extra_prefixes)
