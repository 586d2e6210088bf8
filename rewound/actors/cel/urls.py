"""url(), isURL() and the parts of a URL, as Go's net/url parses them."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from typing import Any, Final

from rewound.actors.cel.values import EvaluationError, MapValue, no_such_overload
from rewound.actors.runtime.budget import Budget

_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_CACHED_LENGTH: Final = 512  # characters; loops parse the same few texts again and again
_PORT: Final = re.compile(r":[0-9]*")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_HOST: Final = _UNRESERVED | frozenset("!$&'()*+,;=:[]<>\"")
_USER: Final = _UNRESERVED | frozenset("$&+,;=")
_PATH: Final = _UNRESERVED | frozenset("$&+,/:;=@")
_FRAGMENT: Final = _UNRESERVED | frozenset("$&+,/:;=?@!()*")
_VALID_PATH: Final = frozenset("!$&'()*+,;=:@[]")


class InvalidURL(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class URL:
    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    host: str = ""
    path: str = ""
    raw_path: str = ""
    query: str = ""
    force_query: bool = False
    fragment: str = ""
    type_name: str = ""  # differs between dialects

    go_name = "model.URL"

    def equals(self, other: Any, _: Budget) -> bool:
        if other.__class__ is not URL:
            raise no_such_overload()
        return str(self) == str(other)

    def __str__(self) -> str:
        text = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            text += self.opaque
        else:
            if self.scheme or self.host or self.user is not None:
                if self.host or self.path or self.user is not None:
                    text += "//"
                text += f"{self.user}@" if self.user is not None else ""
                text += _escape(self.host, _HOST) if self.host else ""
            path = self.escaped_path()
            if path and path[0] != "/" and self.host:
                text += "/"
            text += path
        if self.force_query or self.query:
            text += f"?{self.query}"
        return text + (f"#{_escape(self.fragment, _FRAGMENT)}" if self.fragment else "")

    def escaped_path(self) -> str:
        if self.raw_path and _valid_encoded(self.raw_path) and _unescape(self.raw_path) == self.path:
            return self.raw_path
        return "*" if self.path == "*" else _escape(self.path, _PATH)

    def hostname(self) -> str:
        return _split_host(self.host)[0]

    def port(self) -> str:
        return _split_host(self.host)[1]

    def parameters(self) -> MapValue:
        found: dict[str, list[Any]] = {}
        for part in self.query.split("&"):
            if not part or ";" in part:
                continue
            key, _, value = part.partition("=")
            try:
                key, value = _unescape(key, plus=True), _unescape(value, plus=True)
            except InvalidURL:
                continue
            found.setdefault(key, []).append(value)
        return MapValue(list(found.items()))


def parse_request_url(text: str) -> URL:
    """Parse an absolute URL or an absolute path, in which # does not begin a fragment."""
    return _parse(text, via_request=True, shown=text)


def parse_url(text: str) -> URL:
    rest, _, fragment = text.partition("#")
    url = _parse(rest, via_request=False, shown=rest)
    try:
        return replace(url, fragment=_unescape(fragment)) if fragment else url
    except InvalidURL as problem:
        raise _problem(text, problem) from None


def _problem(text: str, problem: Exception | str) -> InvalidURL:
    return InvalidURL(f"parse {_quote(text)}: {problem}")


def _quote(text: str) -> str:
    """Quote like Go's %q."""
    special = {"\\": "\\\\", '"': '\\"', "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r"}
    special |= {"\t": "\\t", "\v": "\\v"}
    return '"' + "".join(special.get(c) or (c if c.isprintable() else _code(c)) for c in text) + '"'


def _code(character: str) -> str:
    number = ord(character)
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _parse(text: str, *, via_request: bool, shown: str) -> URL:
    try:
        return _parse_parts(text, via_request)
    except InvalidURL as problem:
        raise _problem(shown, problem) from None


def _parse_parts(text: str, via_request: bool) -> URL:
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in text):
        raise InvalidURL("net/url: invalid control character in URL")
    if not text and via_request:
        raise InvalidURL("empty url")
    if text == "*":
        return URL(path="*")
    scheme, rest = _split_scheme(text)
    query, force = "", False
    if rest.endswith("?") and rest.count("?") == 1:
        rest, force = rest[:-1], True
    else:
        rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return URL(scheme, opaque=rest, query=query, force_query=force)
        if via_request:
            raise InvalidURL("invalid URI for request")
        if ":" in rest.split("/", 1)[0]:
            raise InvalidURL("first path segment in URL cannot contain colon")
    user, host = None, ""
    if (scheme or (not via_request and not rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, following = rest[2:].partition("/")
        rest = slash + following
        user, host = _parse_authority(authority)
    path = _unescape(rest)
    raw_path = "" if rest == _escape(path, _PATH) else rest
    return URL(scheme, "", user, host, path, raw_path, query, force)


def _split_scheme(text: str) -> tuple[str, str]:
    found = _SCHEME.match(text)
    if found:
        return found[1].lower(), text[found.end() :]
    if text.startswith(":"):
        raise InvalidURL("missing protocol scheme")
    return "", text


def _parse_authority(authority: str) -> tuple[str | None, str]:
    user, at, host = authority.rpartition("@")
    parsed = _parse_host(host)
    if not at:
        return None, parsed
    if not _valid_user(user):
        raise InvalidURL("net/url: invalid userinfo")
    name, colon, password = user.partition(":")
    shown = _escape(_unescape(name), _USER)
    return shown + (":" + _escape(_unescape(password), _USER) if colon else ""), parsed


def _valid_user(user: str) -> bool:
    return all((c.isascii() and c.isalnum()) or c in "-._:~!$&'()*+,;=%@" for c in user)


def _parse_host(host: str) -> str:
    if not host.startswith("["):
        colon = host.rfind(":")
        if colon != -1:
            _check_port(host[colon:])
        return _unescape(host, host=True)
    end = host.rfind("]")
    if end < 0:
        raise InvalidURL("missing ']' in host")
    _check_port(host[end + 1 :])
    zone = host.find("%25", 0, end)
    if zone < 0:
        return _unescape(host, host=True)
    return (
        _unescape(host[:zone], host=True)
        + _unescape(host[zone:end], zone=True)
        + _unescape(host[end:], host=True)
    )


def _check_port(port: str) -> None:
    if port and not _PORT.fullmatch(port):
        raise InvalidURL(f"invalid port {_quote(port)} after host")


def _split_host(host: str) -> tuple[str, str]:
    """Return the host name without brackets, and the port."""
    port = ""
    colon = host.rfind(":")
    if colon != -1 and _PORT.fullmatch(host[colon:]):
        host, port = host[:colon], host[colon + 1 :]
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host, port


def _unescape(text: str, *, host: bool = False, zone: bool = False, plus: bool = False) -> str:
    result, position = bytearray(), 0
    while position < len(text):
        character = text[position]
        if character == "%":
            digits = text[position + 1 : position + 3]
            if len(digits) < 2 or not _HEX.issuperset(digits):
                raise InvalidURL(f"invalid URL escape {_quote(text[position : position + 3])}")
            _check_escape(text, position, digits, host, zone)
            result.append(int(digits, 16))
            position += 3
            continue
        if (host or zone) and character.isascii() and character not in _HOST:
            raise InvalidURL(f"invalid character {_quote(character)} in host name")
        result += b" " if plus and character == "+" else character.encode(errors="surrogatepass")
        position += 1
    return result.decode(errors="replace")


def _check_escape(text: str, position: int, digits: str, host: bool, zone: bool) -> None:
    escape = text[position : position + 3]
    if host and int(digits[0], 16) < 8 and escape != "%25":
        raise InvalidURL(f"invalid URL escape {_quote(escape)}")
    if zone:
        value = int(digits, 16)
        allowed = value >= 0x80 or chr(value) in _HOST or chr(value) == " " or escape == "%25"
        if not allowed:
            raise InvalidURL(f"invalid URL escape {_quote(escape)}")


def _escape(text: str, allowed: frozenset[str]) -> str:
    return "".join(
        c if c in allowed else "".join(f"%{byte:02X}" for byte in c.encode(errors="surrogatepass"))
        for c in text
    )


def _valid_encoded(text: str) -> bool:
    return all(c in _VALID_PATH or c == "%" or c in _PATH for c in text)


def to_url(type_name: str, text: Any) -> URL:
    found = _cached(text, type_name) if len(text) <= _CACHED_LENGTH else _read(text, type_name)
    if isinstance(found, URL):
        return found
    raise EvaluationError(f"URL parse error during conversion from string: {found}")


def _read(text: str, type_name: str = "") -> URL | str:
    """Return the URL, or what is wrong with it."""
    try:
        parse_request_url(text)
        return replace(parse_url(text), type_name=type_name)
    except InvalidURL as problem:
        return str(problem)


_cached = functools.lru_cache(maxsize=256)(_read)


def is_url(text: Any) -> bool:
    found = _cached(text) if len(text) <= _CACHED_LENGTH else _read(text)
    if isinstance(found, URL):
        return True
    try:
        parse_request_url(text)
    except InvalidURL:
        return False
    return True
