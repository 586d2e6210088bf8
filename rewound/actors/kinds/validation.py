"""What is wrong with a field: the errors of validation, and the checks of formats that many kinds share.

A validation function takes a `FieldErrors` as its first parameter, adds one `FieldError` for each broken rule and
returns nothing, so the order of the calls is the order of the causes in the response. Creating a `FieldError` has no
side effects. Checks of a format return the texts of what is wrong, an empty list if nothing is. Those of every write
test for valid values first; these are ASCII, so that their length in characters is that in bytes. The texts are part
of the API: clients and people match on them.

The collector bounds the count: a body of three megabytes can break a million rules. Past `MOST` it raises
`TooManyErrors`, which ends validation at once; only `collect`, which makes the collector, catches it, and `decide`
for creates. It also cuts paths and messages: both can contain a key or a name of megabytes, and there may be a
thousand of them. Rejected: a check in every loop of every rule, because one would be forgotten; a process-wide
counter in the constructor of `FieldError`, because constructing a value would then depend on who else is validating.

The collector also knows the features of the server, for rules that depend on the version. A text that later versions
word differently is a `Worded`, and the collector chooses the wording.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence, Set
from functools import lru_cache
from typing import Any, Concatenate, Final, ParamSpec

import msgspec

from rewound.actors.errors import MAX_COUNTED, BadRequest, Cause
from rewound.actors.golang.format import as_json, format_value, has_json
from rewound.actors.golang.quoting import cut, quoted_list, quoted_start
from rewound.actors.messages import Object
from rewound.actors.versions.features import (
    ADDRESSES_AND_NETWORKS,
    BYTES_COUNTED_IN_TEXTS,
    DOTS_IN_TEXTS,
    JSON_IN_TEXTS,
    LABEL_KEY_TEXTS,
    NETWORK_EXAMPLES,
    ODD_ADDRESSES_INVALID,
    STRICT_ADDRESSES,
)

MOST: Final = MAX_COUNTED
LONGEST_PATH: Final = 1024
LONGEST_MESSAGE: Final = 12 * 1024  # more than the longest useful message, the differences between two pods
IMMUTABLE: Final = "field is immutable"
NEGATIVE: Final = "must be greater than or equal to 0"

_Args = ParamSpec("_Args")


class Worded(str):
    """The wording of 1.25; `word` returns that of a server with some features."""

    __slots__ = ("word",)
    word: Callable[[frozenset[str]], str]

    def __new__(cls, text: str, word: Callable[[frozenset[str]], str]) -> Worded:
        made = super().__new__(cls, text)
        made.word = word
        return made


def reworded(text: str, feature: str, later: str) -> Worded:
    """Return a text that a server with `feature` words differently."""
    return Worded(text, lambda features: later if feature in features else text)


def wording(text: str, features: frozenset[str]) -> str:
    """Return the text as a server with these features words it."""
    return text.word(features) if isinstance(text, Worded) else text


class FieldError(msgspec.Struct, frozen=True):
    """One broken rule: a reason word, the path of the field, and the text."""

    reason: str
    field: str
    message: str

    def cause(self, features: frozenset[str] = frozenset()) -> Cause:
        """Return the cause in a response of a server with these features."""
        return Cause(self.reason, str(wording(self.message, features)), self.field)


class TooManyErrors(Exception):
    """A collector has more errors than anybody will read."""


class FieldErrors:
    """The errors of one validation, in the order in which the rules add them."""

    __slots__ = ("features", "found", "valid_metadata", "warnings")

    def __init__(self, features: frozenset[str] = frozenset()) -> None:
        self.features = features
        self.found: list[FieldError] = []
        self.warnings: tuple[str, ...] = ()
        # Metadata whose labels, annotations and owners were found valid: an update validates it up to four times.
        self.valid_metadata: Object | None = None

    def add(self, error: FieldError) -> None:
        if isinstance(error.message, Worded):
            error = FieldError(error.reason, error.field, error.message.word(self.features))
        if len(error.field) > LONGEST_PATH or len(error.message) > LONGEST_MESSAGE:
            error = FieldError(
                error.reason, cut(error.field, LONGEST_PATH), cut(error.message, LONGEST_MESSAGE)
            )
        self.found.append(error)
        if len(self.found) > MOST:
            raise TooManyErrors

    def warn(self, error: FieldError) -> None:
        """Only warn of an error, because the value was stored before and has not changed."""
        self.warnings += (f"{error.field}: {error.message}",)

    def add_each(self, field: str, value: Any, texts: Iterable[str]) -> None:
        """Add one error for each text about the same value."""
        for text in texts:
            self.add(invalid(field, value, text))

    def add_all(self, errors: Iterable[FieldError]) -> None:
        for error in errors:
            self.add(error)

    def added_by(
        self,
        validate: Callable[Concatenate[FieldErrors, _Args], None],
        *args: _Args.args,
        **kwargs: _Args.kwargs,
    ) -> list[FieldError]:
        """Run `validate` on this collector and return the errors that it added, for rules that depend on them.

        Some rules apply only if others found nothing, and Kubernetes reports some errors twice.
        """
        before = len(self.found)
        validate(self, *args, **kwargs)
        return self.found[before:]


def collect(
    validate: Callable[Concatenate[FieldErrors, _Args], None], /, *args: _Args.args, **kwargs: _Args.kwargs
) -> list[FieldError]:
    """Return the errors that `validate` finds; if there are too many, the first MOST and one more."""
    return collect_with(frozenset(), validate, *args, **kwargs)


def collect_with(
    features: frozenset[str],
    validate: Callable[Concatenate[FieldErrors, _Args], None],
    /,
    *args: _Args.args,
    **kwargs: _Args.kwargs,
) -> list[FieldError]:
    """Return the errors that `validate` finds on a server with these features."""
    errors = FieldErrors(features)
    try:
        validate(errors, *args, **kwargs)
    except TooManyErrors:
        pass
    return errors.found


OMITTED: Final = object()  # in place of a value that an error does not show


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """Return the error of a value that breaks a rule; of one that many errors show, give a `Repeated`."""
    if value is OMITTED:
        return FieldError("FieldValueInvalid", field, _with_detail("Invalid value", detail))
    return FieldError("FieldValueInvalid", field, _with_detail(_with_value("Invalid value", value), detail))


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, _with_detail("Required value", detail))


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, _with_detail("Forbidden", detail))


def duplicate(field: str, value: Any, detail: str = "") -> FieldError:
    return FieldError(
        "FieldValueDuplicate", field, _with_detail(_with_value("Duplicate value", value), detail)
    )


def not_supported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    text = _with_value("Unsupported value", value)
    return FieldError(
        "FieldValueNotSupported", field, _with_detail(text, f"supported values: {quoted_list(supported)}")
    )


def not_found(field: str, value: Any, detail: str = "") -> FieldError:
    return FieldError("FieldValueNotFound", field, _with_detail(_with_value("Not found", value), detail))


def too_long(field: str, limit: int) -> FieldError:
    text = f"Too long: must have at most {limit} bytes"
    later = f"Too long: may not be more than {limit} bytes"
    return FieldError("FieldValueTooLong", field, reworded(text, BYTES_COUNTED_IN_TEXTS, later))


def too_many(field: str, count: int, limit: int) -> FieldError:
    text = f"Too many: {count}: must have at most {limit} items"
    if limit == 1:
        text = reworded(text, JSON_IN_TEXTS, text.removesuffix("s"))
    return FieldError("FieldValueTooMany", field, text)


def undecided(field: str, why: str) -> FieldError:
    """Return the error for a rule that cannot be checked, because it depends on a value that already has an error."""
    return FieldError("InternalError", field, f"Internal error: {why}")


def unchanged(errors: FieldErrors, field: str, new: Any, old: Any) -> None:
    if new != old:
        errors.add(invalid(field, new, IMMUTABLE))


def _with_value(text: str, value: Any) -> str:
    plain = f"{text}: {format_value(value)}"
    if not has_json(value):
        return plain
    return Worded(plain, lambda features: f"{text}: {as_json(value)}" if JSON_IN_TEXTS in features else plain)


def _with_detail(text: str, detail: str) -> str:
    if not detail:
        return text
    joined = f"{text}: {detail}"
    if isinstance(text, Worded) or isinstance(detail, Worded):
        return Worded(
            joined,
            lambda features: ": ".join(filter(None, (wording(text, features), wording(detail, features)))),
        )
    return joined


CheckName = Callable[[str, bool], list[str]]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def size(text: str) -> int:
    """Return the length in bytes, which is what limits count."""
    return len(text) if text.isascii() else len(text.encode())


def explained(text: str, pattern: str, *examples: str) -> str:
    """Return a rule with its pattern and valid examples."""
    listed = " or ".join(f"'{one}', " for one in examples)
    return f"{text} (e.g. {listed}regex used for validation is '{pattern}')"


def at_most(limit: int) -> str:
    return f"must be no more than {limit} characters"


_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_VARIABLE: Final = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_HEADER: Final = "[-A-Za-z0-9]+"

# Only patterns: callers check lengths. They accept what the texts above say, which errors show, but never backtrack
# (`*+`): those in the texts take up to a third of a second for a name of a megabyte.
_LABEL_ONCE: Final = "[a-z0-9][-a-z0-9]*+(?<!-)"
_QUALIFIED_ONCE: Final = "[A-Za-z0-9][-A-Za-z0-9_.]*+(?<![-_.])"
is_label = re.compile(_LABEL_ONCE).fullmatch
_is_short_label = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?").fullmatch
is_subdomain = re.compile(rf"{_LABEL_ONCE}(?:\.{_LABEL_ONCE})*+").fullmatch
_SEARCH_LABEL_ONCE: Final = "_?[a-z0-9][-_a-z0-9]*+(?<![-_])"
_is_search_domain = re.compile(rf"{_SEARCH_LABEL_ONCE}(?:\.{_SEARCH_LABEL_ONCE})*+").fullmatch
_is_qualified = re.compile(_QUALIFIED_ONCE).fullmatch
_is_label_value = re.compile(f"(?:{_QUALIFIED_ONCE})?").fullmatch
is_config_key = re.compile(_CONFIG_KEY).fullmatch
is_plain_config_key = re.compile("[-_a-zA-Z0-9][-._a-zA-Z0-9]{0,252}").fullmatch  # does not begin with a dot
is_variable = re.compile(_VARIABLE).fullmatch
_is_header = re.compile(_HEADER).fullmatch
is_port_name = re.compile("(?!-)(?!.*--)(?=.*[a-z])[-a-z0-9]{1,15}(?<!-)").fullmatch

_ALPHABET: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_LABEL_TEXT: Final = explained(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_DOTS_TEXT: Final = reworded(_LABEL_TEXT, DOTS_IN_TEXTS, "must not contain dots")
_SUBDOMAIN_TEXT: Final = explained(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_CASELESS_TEXT: Final = explained(
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "Example.com",
)
_SEARCH_LABEL: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH_ALPHABET: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_SEARCH_DOMAIN_TEXT: Final = reworded(
    explained(_SEARCH_ALPHABET, _SUBDOMAIN, "example.com"),
    JSON_IN_TEXTS,
    explained(_SEARCH_ALPHABET, rf"{_SEARCH_LABEL}(\.{_SEARCH_LABEL})*", "example.com"),
)
_QUALIFIED_TEXT: Final = explained(_ALPHABET, _QUALIFIED, "MyName", "my.name", "123-abc")
_LABEL_VALUE_TEXT: Final = explained(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    f"({_QUALIFIED})?",
    "MyValue",
    "my_value",
    "12345",
)
_CONFIG_KEY_TEXT: Final = explained(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_KEY,
    "key.name",
    "KEY_NAME",
    "key-name",
)
_VARIABLE_TEXT: Final = explained(
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', "
    "and must not start with a digit",
    _VARIABLE,
    "my.env-name",
    "MY_ENV.NAME",
    "MyEnvName1",
)
_HEADER_TEXT: Final = explained(
    "a valid HTTP header must consist of alphanumeric characters or '-'", _HEADER, "X-Header-Name"
)


def dns_label(value: str) -> list[str]:
    if _is_short_label(value):
        return []
    wrong = [at_most(63)] if size(value) > 63 else []
    if is_label(value):
        return wrong
    return [*wrong, _DOTS_TEXT if is_subdomain(value) else _LABEL_TEXT]


def dns_subdomain(value: str) -> list[str]:
    if len(value) <= 253 and is_subdomain(value):
        return []
    wrong = [at_most(253)] if size(value) > 253 else []
    return wrong if is_subdomain(value) else [*wrong, _SUBDOMAIN_TEXT]


def caseless_subdomain(value: str) -> list[str]:
    """Check a subdomain that may have letters of upper case."""
    wrong = ["must be no more than 253 bytes"] if size(value) > 253 else []
    return wrong if is_subdomain(value.lower()) else [*wrong, _CASELESS_TEXT]


def search_domain(value: str) -> list[str]:
    """Check a subdomain that may have underscores, as search domains may."""
    wrong = [at_most(253)] if size(value) > 253 else []
    return wrong if _is_search_domain(value) else [*wrong, _SEARCH_DOMAIN_TEXT]


def qualified_name(value: str) -> list[str]:
    """Check a name with an optional DNS subdomain and a slash before it: label keys, finalizers and the like."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        text = f"{_QUALIFIED_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [reworded(f"a qualified name {text}", LABEL_KEY_TEXTS, f"a valid label key {text}")]
    wrong: list[str] = []
    if slash and not prefix:
        wrong.append("prefix part must be non-empty")
    elif slash:
        wrong += [f"prefix part {text}" for text in dns_subdomain(prefix) if text != at_most(253)]
        if size(prefix) > 253:
            wrong.insert(0, _at_most_bytes(253, "prefix part "))
    if not name:
        wrong.append("name part must be non-empty")
    elif size(name) > 63:
        wrong.append(_at_most_bytes(63, "name part "))
    if not _is_qualified(name):
        wrong.append(f"name part {_QUALIFIED_TEXT}")
    return wrong


def _at_most_bytes(limit: int, prefix: str = "") -> str:
    text = f"{prefix}{at_most(limit)}"
    return reworded(text, LABEL_KEY_TEXTS, f"{prefix}must be no more than {limit} bytes")


def label_value(value: str) -> list[str]:
    wrong = [_at_most_bytes(63)] if size(value) > 63 else []
    return wrong if _is_label_value(value) else [*wrong, _LABEL_VALUE_TEXT]


def config_key(value: str) -> list[str]:
    """Check a key of a ConfigMap or Secret, which becomes a file name."""
    if is_plain_config_key(value):
        return []
    wrong = [at_most(253)] if size(value) > 253 else []
    if not is_config_key(value):
        wrong.append(_CONFIG_KEY_TEXT)
    return wrong + _no_parent_references(value)


def variable_name(value: str) -> list[str]:
    """Check the name of an environment variable; dots and dashes are allowed."""
    return [*([] if is_variable(value) else [_VARIABLE_TEXT]), *_no_parent_references(value)]


def relaxed_variable_name(value: str) -> list[str]:
    """Check the name of an environment variable as later versions do: any printable ASCII but the equals sign."""
    wrong = [] if value else ["environment variable name must be non-empty"]
    if not value.isascii() or not value.isprintable() or "=" in value:
        wrong.append(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        )
    return wrong


def _no_parent_references(value: str) -> list[str]:
    """Check names that may become file names."""
    if value in (".", ".."):
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


def header_name(value: str) -> list[str]:
    return [] if _is_header(value) else [_HEADER_TEXT]


def between(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def port_number(value: int) -> list[str]:
    return [] if 1 <= value <= 65535 else [between(1, 65535)]


def port_name(value: str) -> list[str]:
    """Check the name of a port: a short word of lower case letters, digits and single dashes."""
    if is_port_name(value):
        return []
    wrong = [at_most(15)] if size(value) > 15 else []
    if not value or not set(value) <= _PORT_LETTERS:
        wrong.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not set(value) & _LOWER:
        wrong.append("must contain at least one letter (a-z)")
    if "--" in value:
        wrong.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        wrong.append("must not begin or end with a hyphen")
    return wrong


_LOWER: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_PORT_LETTERS: Final = _LOWER | frozenset("-0123456789")


def name_is_subdomain(name: str, prefix: bool) -> list[str]:
    if not prefix and len(name) <= 253 and is_subdomain(name):
        return []
    return dns_subdomain(_without_dash(name) if prefix else name)


def name_is_long(name: str, prefix: bool) -> list[str]:
    """Check a name as declarative validation does: not the start of a name that is generated."""
    if prefix:
        return []
    limit = at_most(253)
    return ["must be no more than 253 bytes" if text == limit else text for text in dns_subdomain(name)]


def name_is_label(name: str, prefix: bool) -> list[str]:
    return dns_label(_without_dash(name) if prefix else name)


def name_is_path_segment(name: str, prefix: bool) -> list[str]:
    """The least strict rule for names: usable as a path segment of a URL."""
    if not prefix and name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{one}'" for one in ("/", "%") if one in name]


def refuse_name(name: str) -> None:
    """Raise BadRequest for a name in a path that no object can have."""
    if wrong := name_is_path_segment(name, prefix=False):
        raise BadRequest(f"Name parameter invalid: {quoted_start(name)}: {';'.join(wrong)}")


def _without_dash(prefix: str) -> str:
    """A prefix may end in a dash: check it as if a letter followed."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


_LONGEST_ADDRESS: Final = 45  # of IPv6 that ends in the form of IPv4


def parse_ip(text: str) -> Address | None:
    """Parse an address; IPv4 with leading zeros, which old clients send, is accepted."""
    return _parse_ip(text) if len(text) <= _LONGEST_ADDRESS else None


@lru_cache(maxsize=1024)  # one write of a pod needs its addresses six times
def _parse_ip(text: str) -> Address | None:
    if ":" not in text:
        parts = text.split(".")
        if len(parts) != 4 or not all(
            part.isdecimal() and part.isascii() and len(part) < 9 for part in parts
        ):
            return None
        text = ".".join(str(int(part)) for part in parts)
    if "%" in text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def parse_network(text: str) -> Network | None:
    address, slash, length = text.partition("/")
    parsed = parse_ip(address)
    if parsed is None or not slash or not length.isdecimal() or len(length) > 3:
        return None
    try:
        return ipaddress.ip_network((parsed, int(length)), strict=False)
    except ValueError:
        return None


def ip_address(value: str, *, strict: bool = False) -> list[str]:
    """Check an address; with `strict`, one that all programs read alike, but not only in its canonical form."""
    parsed = parse_ip(value)
    if parsed is None:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    if not strict:
        return []
    if parsed.version == 4 and str(parsed) != value:
        return ["must not have leading 0s"]
    return ["must not be an IPv4-mapped IPv6 address"] if _is_mapped(parsed) else []


def canonical_ip(value: str) -> list[str]:
    """Check an address that must be written in its only form."""
    wrong = ip_address(value, strict=True)
    parsed = parse_ip(value)
    return wrong if wrong or str(parsed) == value else [f'must be in canonical form ("{parsed}")']


_NOT_A_NETWORK: Final = reworded(
    "not a valid CIDR",
    NETWORK_EXAMPLES,
    "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
)


def cidr(value: str, *, strict: bool = False) -> list[str]:
    """Check a network; with `strict`, one that all programs read alike, but not only in its canonical form."""
    network = parse_network(value)
    if network is None:
        return [_NOT_A_NETWORK]
    if not strict:
        return []
    text, _, length = value.partition("/")
    address = parse_ip(text)
    if (network.version == 4 and str(address) != text) or str(int(length)) != length:
        return ["must not have leading 0s in IP or prefix length"]
    if address is not None and _is_mapped(address):
        return ["must not have an IPv4-mapped IPv6 address"]
    return [] if address == network.network_address else ["must not have bits set beyond the prefix length"]


def canonical_cidr(value: str) -> list[str]:
    wrong = cidr(value, strict=True)
    network = parse_network(value)
    return wrong if wrong or str(network) == value else [f'must be in canonical form ("{network}")']


def ip_rules(errors: FieldErrors, field: str, value: str, kept: Set[str] = frozenset()) -> None:
    """Validate an address in a field that once took odd forms; an object may keep those that it has."""
    if value not in kept or ADDRESSES_AND_NETWORKS not in errors.features:
        errors.add_each(field, value, ip_address(value, strict=STRICT_ADDRESSES in errors.features))


def cidr_rules(errors: FieldErrors, field: str, value: str, kept: Set[str] = frozenset()) -> None:
    """Validate a network in a field that once took odd forms; an object may keep those that it has."""
    if value not in kept or ADDRESSES_AND_NETWORKS not in errors.features:
        errors.add_each(field, value, cidr(value, strict=STRICT_ADDRESSES in errors.features))


def ip_warnings(features: frozenset[str], field: str, value: str) -> list[str]:
    """Warn of an address that `ip_rules` accepts, or accepted earlier, in an odd form."""
    if ADDRESSES_AND_NETWORKS not in features or (parsed := parse_ip(value)) is None:
        return []
    if ip_address(value, strict=True):
        usual = getattr(parsed, "ipv4_mapped", None) or parsed
        return [f'{field}: non-standard IP address "{value}" {_odd(features)}: use "{usual}"']
    if str(parsed) != value:
        return [
            f'{field}: IPv6 address "{value}" should be in RFC 5952 canonical format ("{parsed}")',
        ]
    return []


def cidr_warnings(features: frozenset[str], field: str, value: str) -> list[str]:
    """Warn of a network that `cidr_rules` accepts, or accepted earlier, in an odd form."""
    network, address = parse_network(value), parse_ip(value.partition("/")[0])
    if network is None or address is None or ADDRESSES_AND_NETWORKS not in features:
        return []
    usual, warnings = _usual_network(network), []
    if address != network.network_address:
        single = f"{getattr(address, 'ipv4_mapped', None) or address}/{network.max_prefixlen}"
        text = f'should be "{usual}" or "{single}"?'
        warnings.append(f'{field}: CIDR value "{value}" is ambiguous in this context ({text})')
    text, _, length = value.partition("/")
    if (network.version == 4 and str(address) != text) or str(int(length)) != length or _is_mapped(address):
        warnings.append(f'{field}: non-standard CIDR value "{value}" {_odd(features)}: use "{usual}"')
    if not warnings and str(network) != value:
        warnings.append(
            f'{field}: IPv6 CIDR value "{value}" should be in RFC 5952 canonical format ("{network}")'
        )
    return warnings


def _odd(features: frozenset[str]) -> str:
    later = ODD_ADDRESSES_INVALID in features
    return "is invalid" if later else "will be considered invalid in a future Kubernetes release"


def _is_mapped(address: Address) -> bool:
    return getattr(address, "ipv4_mapped", None) is not None


def _usual_network(network: Network) -> str:
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    return str(network) if mapped is None else f"{mapped}/{max(network.prefixlen - 96, 0)}"


_SPECIAL: Final[Sequence[tuple[str, str]]] = (
    ("is_loopback", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
    ("is_link_local", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
)


def ordinary_ip(value: str, *, loopback: bool = False) -> list[str]:
    """Check the address of another machine; with `loopback`, also one of this machine."""
    address = parse_ip(value)
    if address is None:
        return ["must be a valid IP address"]
    address = getattr(address, "ipv4_mapped", None) or address
    wrong = [f"may not be unspecified ({value})"] if address.is_unspecified else []
    wrong += [
        text for trait, text in _SPECIAL if getattr(address, trait) and not (loopback and address.is_loopback)
    ]
    if any(address in network for network in _LINK_LOCAL_MULTICAST if network.version == address.version):
        wrong.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return wrong


_LINK_LOCAL_MULTICAST: Final = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD: Final = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_URL_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_is_1035_label = re.compile("[a-z][-a-z0-9]*+(?<!-)").fullmatch
_is_wildcard = re.compile(rf"\*(?:\.{_LABEL_ONCE})++").fullmatch
_is_url_path = re.compile(_URL_PATH).fullmatch


def dns_1035_label(value: str) -> list[str]:
    """Check a DNS-1035 label, which does not start with a digit: names of services."""
    wrong = [at_most(63)] if size(value) > 63 else []
    if _is_1035_label(value):
        return wrong
    text = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
        "start with an alphabetic character, and end with an alphanumeric character"
    )
    return [*wrong, explained(text, _LABEL_1035, "my-name", "abc-123")]


def name_is_1035_label(name: str, prefix: bool) -> list[str]:
    return dns_1035_label(_without_dash(name) if prefix else name)


def wildcard_subdomain(value: str) -> list[str]:
    wrong = [at_most(253)] if size(value) > 253 else []
    if _is_wildcard(value):
        return wrong
    text = (
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must "
        "consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
    )
    return [*wrong, explained(text, _WILDCARD, "*.example.com")]


def domain_prefixed_path(errors: FieldErrors, field: str, value: str) -> None:
    """Check a domain, a slash, and a path as in a URL."""
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


def domain_prefixed_key(errors: FieldErrors, field: str, value: str) -> None:
    """Check a qualified name that has a domain."""
    if not value:
        errors.add(required(field))
        return
    wrong = qualified_name(value)
    errors.add_each(field, value, wrong)
    if not wrong and "/" not in value:
        errors.add(invalid(field, value, 'must be a domain-prefixed key (such as "acme.io/foo")'))


BACKSTEP = "must not contain '..'"


def without_backsteps(path: str) -> list[str]:
    return [BACKSTEP] if ".." in path and ".." in path.split("/") else []


def descending(path: str) -> list[str]:
    """Check a relative path without ".."."""
    wrong = ["must be a relative path"] if path.startswith("/") else []
    return wrong + without_backsteps(path)


def unreserved(path: str) -> list[str]:
    """Check a descending path that avoids the names that mounted volumes use internally."""
    wrong = descending(path)
    if path.startswith("..") and not path.startswith("../"):
        wrong.append("must not start with '..'")
    return wrong
