"""The formats and patterns of strings that a schema may demand.

The formats are those that v1.25 checks; all others are ignored. Names are compared without dashes: `date-time` is
`datetime`. The rules are those of its libraries, which are not always those of the standards: an empty text is no
`byte` data, leading zeros in IPv4 addresses pass.

Patterns are compiled once for all schemas that have them. A definition with a pattern that does not compile is
refused, so compiled schemas have none.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import date
from email.headerregistry import Address
from functools import lru_cache
from typing import Any, Final

from rewound.actors.cel.go_regexp import compile_re2, is_large, may_take_long, without_names
from rewound.actors.kinds.structural.schema_node import Node
from rewound.actors.runtime.time_limit import need_thread

# Different patterns of one definition, each of which may take some memory with hostile texts.
MOST_PATTERNS: Final = 2000
_LONGEST_EMAIL: Final = 4096
_LONGEST: Final = 8192  # a millisecond for most patterns
_LONGEST_OF_LARGE: Final = 256  # two milliseconds
_WEIGHT_OF_LARGE: Final = 64  # a large pattern counts as this many others


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str, *, named: bool = True) -> Any:
    """Compile a pattern; its `search(text)` is truthy if a part of the text matches. Raises InvalidExpression.

    `named`: it may have named groups without P, like `(?<n>a)`.
    """
    return compile_re2(without_names(pattern) if named and "(?" in pattern else pattern)


def longest_at_once(compiled: Any) -> int:
    """Return the longest text, in characters, that the event loop may search; longer ones need a worker thread."""
    return _LONGEST_OF_LARGE if is_large(compiled) else _LONGEST


def has_slow_pattern(node: Node) -> bool:
    """Whether a pattern of a node, or of the nodes that are compiled with it, may take long to compile."""
    if node.format == "hostname" or (node.pattern and may_take_long(node.pattern)):
        return True
    with_it = (node.items, node.values, node.not_, *node.all_of, *node.any_of, *node.one_of)
    return any(has_slow_pattern(one) for one in with_it if one is not None)


def weight_of(compiled: Any) -> int:
    """Return what a pattern counts towards MOST_PATTERNS."""
    return _WEIGHT_OF_LARGE if is_large(compiled) else 1


Check = Callable[[str], bool]

_DIGITS: Final = re.compile(r"[0-9]+")
_HEX: Final = "[0-9a-fA-F]"
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]++={0,2}")
_CARD: Final = re.compile(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})"
)
_RGB_PART: Final = r"[ \t]*+(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])[ \t]*+"
_RGB: Final = re.compile(rf"rgb\({_RGB_PART},{_RGB_PART},{_RGB_PART}\)", re.ASCII)
_CLOCK: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_LONGEST_IP: Final = 45  # characters, with an IPv4 address at the end
_MOST_CARD_DIGITS: Final = 16
# Nearly all addresses; what else the header parser accepts takes it milliseconds.
_PLAIN_EMAIL: Final = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]++(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]++)*+@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)*+"
)
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_GO_DURATION: Final = re.compile(r"[-+]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
# It starts where a number does: otherwise each digit of a long number would be the start of another search.
_DURATION_PART: Final = re.compile(r"(?<![0-9])([0-9]++)[ \t\n\f\r]*+([A-Za-zµ]++)")
_DURATION_UNITS: Final = frozenset(("ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"))
_DURATION_STARTS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_MAC: Final = re.compile(
    rf"{_HEX}{{2}}(?:([:-]){_HEX}{{2}}(?:\1{_HEX}{{2}}){{4}}(?:(?:\1{_HEX}{{2}}){{2}}|(?:\1{_HEX}{{2}}){{14}})?)"
    rf"|{_HEX}{{4}}(?:\.{_HEX}{{4}}){{2}}(?:\.{_HEX}{{4}}|(?:\.{_HEX}{{4}}){{7}})?"
)


def _matches(pattern: str) -> Check:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(third: str, fourth: str) -> Check:
    return _matches(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{third}-?{fourth}-?{_HEX}{{12}}")


def _ipv4(text: str) -> bool:
    """Leading zeros are decimal; an IPv6 address may end with an IPv4 address."""
    if "." not in text:
        return False
    if ":" in text:
        return _is_ip(text)
    parts = text.split(".", 4)
    return len(parts) == 4 and all(
        _DIGITS.fullmatch(part) is not None and len(part) <= 64 and int(part) < 256 for part in parts
    )


def _is_ip(text: str) -> bool:
    if len(text) > _LONGEST_IP:
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return "%" not in text


def _ipv6(text: str) -> bool:
    return ":" in text and _is_ip(text)


def _cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    if not slash or _DIGITS.fullmatch(length) is None or len(length) > 3:
        return False
    if ":" in address:
        return _is_ip(address) and int(length) <= 128
    return _ipv4(address) and int(length) <= 32


def _uri(text: str) -> bool:
    """Go's net/url.ParseRequestURI: an absolute URI or an absolute path."""
    if not text or _CONTROL.search(text):
        return False
    if text == "*" or text.startswith("/"):
        return _is_escaped(text.partition("?")[0])
    scheme, colon, rest = text.partition(":")
    if not colon or re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme) is None:
        return False
    rest = rest.partition("?")[0]
    if not rest.startswith("/"):
        return True
    return (
        _is_host(rest[2:].partition("/")[0]) and _is_escaped(rest)
        if rest.startswith("//")
        else _is_escaped(rest)
    )


def _is_escaped(text: str) -> bool:
    return re.search(rf"%(?!{_HEX}{{2}})", text) is None


def _is_host(authority: str) -> bool:
    user, at, host = authority.rpartition("@")
    if at and re.fullmatch(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", user) is None:
        return False
    if host.startswith("["):
        return re.fullmatch(r"\[[^\]]*\](?::[0-9]*)?", host) is not None
    name, colon, port = host.rpartition(":")
    if colon and port and _DIGITS.fullmatch(port) is None:
        return False
    name = name if colon else host
    return re.search(r"[ \"<>\\^`{|}]", name) is None and ":" not in name


def _email(text: str) -> bool:
    """Go's net/mail.ParseAddress, for one address with or without a name before it.

    Outside a worker thread it raises NeedsThread for an address that takes long.
    """
    if len(text) <= _LONGEST_EMAIL and _PLAIN_EMAIL.fullmatch(text):
        return True
    if not text or "\n" in text or "\r" in text or len(text) > _LONGEST_EMAIL:
        return False
    found = re.fullmatch(
        r"\s*(?:(?:\"(?:[^\"\\]|\\.)*\"|[^<>\"@,;:\\\[\]()]*)\s*<([^<>\s]+)>|(\S+))\s*", text
    )
    if found is None:
        return False
    spec = found[1] or found[2]
    local, at, domain = spec.rpartition("@")
    if not at or not local or not domain or local.startswith(".") or local.endswith(".") or ".." in local:
        return False
    if domain.startswith(".") or domain.endswith(".") or ".." in domain:
        return False
    if _PLAIN_EMAIL.fullmatch(spec):
        return True
    need_thread()
    try:
        return bool(Address(addr_spec=spec).domain)
    except Exception:  # from the header parser, which raises several kinds
        return False


_HOST_LETTER: Final = "a-zA-Z0-9\\p{S}\\p{L}"
# v1.25 limits each part to 63 letters in this pattern; here `_hostname` counts them afterwards, because RE2 compiles
# this one in a tenth of the time.
_HOSTNAME: Final = (
    rf"^([{_HOST_LETTER}]((-?[{_HOST_LETTER}]*)?)"
    rf"|([{_HOST_LETTER}](([a-zA-Z0-9-\p{{S}}\p{{L}}]*[{_HOST_LETTER}])?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,}})$"
)


def _hostname(text: str) -> bool:
    if len(text) > 255 or not compile_pattern(_HOSTNAME).search(text):
        return False
    return len(text.encode()) <= 255 and all(len(part.encode()) <= 63 for part in text.split("."))


def _date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    return found is not None and _is_day(*map(int, found.groups()))


def _is_day(year: int, month: int, day: int) -> bool:
    try:
        date(year or 4, month, day)  # Go has a year 0, which is a leap year
    except ValueError:
        return False
    return True


def _date_time(text: str) -> bool:
    """Anything after a second letter T is ignored."""
    parts = text.lower().split("t")
    if len(parts) < 2 or not _date(parts[0]):
        return False
    found = _CLOCK.fullmatch(parts[1])
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _duration(text: str) -> bool:
    """Go's notation, or a text that contains at least one number with a unit."""
    if _GO_DURATION.fullmatch(text) is not None:
        return True
    known = False
    for found in _DURATION_PART.finditer(text):
        if len(found[1]) > 18:
            return False
        unit = found[2].lower()
        known = known or unit in _DURATION_UNITS or unit.startswith(_DURATION_STARTS)
    return known


def _isbn10(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if re.fullmatch(r"[0-9]{9}[0-9X]", digits) is None:
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum((index + 1) * value for index, value in enumerate(values)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if re.fullmatch(r"[0-9]{13}", digits) is None:
        return False
    return sum((3 if index % 2 else 1) * int(digit) for index, digit in enumerate(digits)) % 10 == 0


def _credit_card(text: str) -> bool:
    if sum(map(text.count, "0123456789")) > _MOST_CARD_DIGITS:
        return False
    digits = re.sub(r"[^0-9]+", "", text)
    if _CARD.fullmatch(digits) is None:
        return False
    total = 0
    for index, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if index % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _anything(_: str) -> bool:
    return True


FORMATS: Final[dict[str, Check]] = {
    "bsonobjectid": _matches(f"{_HEX}{{24}}"),
    "uri": _uri,
    "email": _email,
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "cidr": _cidr,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uuid": _uuid(f"{_HEX}{{4}}", f"{_HEX}{{4}}"),
    "uuid3": _uuid(f"3{_HEX}{{3}}", f"{_HEX}{{4}}"),
    "uuid4": _uuid(f"4{_HEX}{{3}}", f"[89abAB]{_HEX}{{3}}"),
    "uuid5": _uuid(f"5{_HEX}{{3}}", f"[89abAB]{_HEX}{{3}}"),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _credit_card,
    "ssn": _matches(r"[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}"),
    "hexcolor": _matches(f"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": lambda text: _RGB.fullmatch(text) is not None,
    "byte": lambda text: len(text) % 4 == 0 and _BASE64.fullmatch(text) is not None,
    "password": _anything,
    "date": _date,
    "duration": _duration,
    "datetime": _date_time,
}


def format_check(name: str) -> Check | None:
    """Return the check of a format, or None if it is not checked."""
    return FORMATS.get(name.replace("-", ""))
