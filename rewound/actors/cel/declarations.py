"""Every function that an expression may call, and the names that it may use besides its variables.

The functions are those of the language itself, as cel-go 0.12 declares them, and those that v1.25 adds: URLs, regular
expressions, lists, and cel-go's strings. The names are types, and protobuf's well-known messages. Functions are
declared one overload per line, in the order in which the checker tries them:

    <function> <overload id> (<parameters>) <result>
    <function> <overload id> <receiver>.(<parameters>) <result>

A, B are type parameters; `url` is the type of URLs, whose name depends on the dialect; `kubernetes` has the types that
Kubernetes adds after v1.25.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from rewound.actors.cel import extensions, kubernetes
from rewound.actors.cel.language import Language
from rewound.actors.cel.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    OPTIONAL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    TypeParameter,
    list_of,
    map_of,
    optional_of,
    type_of,
    wrapper_of,
)
from rewound.actors.versions.features import CEL_ADDRESSES, CEL_GLOBAL_MATCHES, CEL_OPTIONALS

_LINE: Final = re.compile(r"(\S+) (\S+) (?:(\S.*)\.)?\((.*)\) (\S.*)")
_TOKEN: Final = re.compile(r"[A-Za-z_]+|[(),]")
_NAMED: Final = {type_.name: type_ for type_ in (BYTES, DURATION, TIMESTAMP)} | {
    name: Type(full) for name, full in kubernetes.TYPES.items()
}


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function. `parameters` begin with the receiver if it is a method."""

    id: str
    function: str
    parameters: tuple[Type, ...]
    result: Type
    method: bool
    type_parameters: tuple[str, ...]


def read(text: str, url_type: str) -> list[Overload]:
    types = {**_NAMED, "url": Type(url_type)}
    return [_read_line(line, types) for line in text.strip().split("\n")]


def _read_line(line: str, named: dict[str, Type]) -> Overload:
    found = _LINE.fullmatch(line)
    assert found is not None, line
    function, identifier, receiver, parameters, result = found.groups()
    given = f"{receiver}, {parameters}" if receiver and parameters else receiver or parameters
    types = tuple(_read_types(given, named))
    names = tuple(name for name in ("A", "B") if re.search(rf"\b{name}\b", line.split(" ", 2)[2]))
    return Overload(identifier, function, types, _read_types(result, named)[0], receiver is not None, names)


def _read_types(text: str, named: dict[str, Type]) -> list[Type]:
    """Parse types separated by commas."""
    found: list[list[Type]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":
            found.append([])
        elif token == ")":
            parameters = found.pop()
            found[-1][-1] = Type(found[-1][-1].name, tuple(parameters))
        elif token != ",":
            found[-1].append(_simple(token, named))
    return found[0]


def _simple(name: str, named: dict[str, Type]) -> Type:
    return TypeParameter(name) if name in ("A", "B") else named.get(name) or Type(name)


STANDARD: Final = """
_?_:_ conditional (bool, A, A) A
_&&_ logical_and (bool, bool) bool
_||_ logical_or (bool, bool) bool
!_ logical_not (bool) bool
@not_strictly_false not_strictly_false (bool) bool
_==_ equals (A, A) bool
_!=_ not_equals (A, A) bool
_-_ subtract_int64 (int, int) int
_-_ subtract_uint64 (uint, uint) uint
_-_ subtract_double (double, double) double
_-_ subtract_timestamp_timestamp (timestamp, timestamp) duration
_-_ subtract_timestamp_duration (timestamp, duration) timestamp
_-_ subtract_duration_duration (duration, duration) duration
_*_ multiply_int64 (int, int) int
_*_ multiply_uint64 (uint, uint) uint
_*_ multiply_double (double, double) double
_/_ divide_int64 (int, int) int
_/_ divide_uint64 (uint, uint) uint
_/_ divide_double (double, double) double
_%_ modulo_int64 (int, int) int
_%_ modulo_uint64 (uint, uint) uint
_+_ add_int64 (int, int) int
_+_ add_uint64 (uint, uint) uint
_+_ add_double (double, double) double
_+_ add_string (string, string) string
_+_ add_bytes (bytes, bytes) bytes
_+_ add_list (list(A), list(A)) list(A)
_+_ add_timestamp_duration (timestamp, duration) timestamp
_+_ add_duration_timestamp (duration, timestamp) timestamp
_+_ add_duration_duration (duration, duration) duration
-_ negate_int64 (int) int
-_ negate_double (double) double
_[_] index_list (list(A), int) A
_[_] index_map (map(A, B), A) B
size string_size string.() int
size bytes_size bytes.() int
size list_size list(A).() int
size map_size map(A, B).() int
size size_string (string) int
size size_bytes (bytes) int
size size_list (list(A)) int
size size_map (map(A, B)) int
@in in_list (A, list(A)) bool
@in in_map (A, map(A, B)) bool
type type (A) type(A)
int int64_to_int64 (int) int
int uint64_to_int64 (uint) int
int double_to_int64 (double) int
int string_to_int64 (string) int
int timestamp_to_int64 (timestamp) int
int duration_to_int64 (duration) int
uint uint64_to_uint64 (uint) uint
uint int64_to_uint64 (int) uint
uint double_to_uint64 (double) uint
uint string_to_uint64 (string) uint
double double_to_double (double) double
double int64_to_double (int) double
double uint64_to_double (uint) double
double string_to_double (string) double
bool bool_to_bool (bool) bool
bool string_to_bool (string) bool
string string_to_string (string) string
string bool_to_string (bool) string
string int64_to_string (int) string
string uint64_to_string (uint) string
string double_to_string (double) string
string bytes_to_string (bytes) string
string timestamp_to_string (timestamp) string
string duration_to_string (duration) string
bytes bytes_to_bytes (bytes) bytes
bytes string_to_bytes (string) bytes
timestamp timestamp_to_timestamp (timestamp) timestamp
timestamp string_to_timestamp (string) timestamp
timestamp int64_to_timestamp (int) timestamp
duration duration_to_duration (duration) duration
duration string_to_duration (string) duration
duration int64_to_duration (int) duration
dyn to_dyn (A) dyn
contains contains_string string.(string) bool
endsWith ends_with_string string.(string) bool
matches matches_string string.(string) bool
startsWith starts_with_string string.(string) bool
getFullYear timestamp_to_year timestamp.() int
getFullYear timestamp_to_year_with_tz timestamp.(string) int
getMonth timestamp_to_month timestamp.() int
getMonth timestamp_to_month_with_tz timestamp.(string) int
getDayOfYear timestamp_to_day_of_year timestamp.() int
getDayOfYear timestamp_to_day_of_year_with_tz timestamp.(string) int
getDayOfMonth timestamp_to_day_of_month timestamp.() int
getDayOfMonth timestamp_to_day_of_month_with_tz timestamp.(string) int
getDate timestamp_to_day_of_month_1_based timestamp.() int
getDate timestamp_to_day_of_month_1_based_with_tz timestamp.(string) int
getDayOfWeek timestamp_to_day_of_week timestamp.() int
getDayOfWeek timestamp_to_day_of_week_with_tz timestamp.(string) int
getHours timestamp_to_hours timestamp.() int
getHours timestamp_to_hours_with_tz timestamp.(string) int
getHours duration_to_hours duration.() int
getMinutes timestamp_to_minutes timestamp.() int
getMinutes timestamp_to_minutes_with_tz timestamp.(string) int
getMinutes duration_to_minutes duration.() int
getSeconds timestamp_to_seconds timestamp.() int
getSeconds timestamp_to_seconds_tz timestamp.(string) int
getSeconds duration_to_seconds duration.() int
getMilliseconds timestamp_to_milliseconds timestamp.() int
getMilliseconds timestamp_to_milliseconds_with_tz timestamp.(string) int
getMilliseconds duration_to_milliseconds duration.() int
_<_ less_bool (bool, bool) bool
_<_ less_int64 (int, int) bool
_<_ less_int64_double (int, double) bool
_<_ less_int64_uint64 (int, uint) bool
_<_ less_uint64 (uint, uint) bool
_<_ less_uint64_double (uint, double) bool
_<_ less_uint64_int64 (uint, int) bool
_<_ less_double (double, double) bool
_<_ less_double_int64 (double, int) bool
_<_ less_double_uint64 (double, uint) bool
_<_ less_string (string, string) bool
_<_ less_bytes (bytes, bytes) bool
_<_ less_timestamp (timestamp, timestamp) bool
_<_ less_duration (duration, duration) bool
_<=_ less_equals_bool (bool, bool) bool
_<=_ less_equals_int64 (int, int) bool
_<=_ less_equals_int64_double (int, double) bool
_<=_ less_equals_int64_uint64 (int, uint) bool
_<=_ less_equals_uint64 (uint, uint) bool
_<=_ less_equals_uint64_double (uint, double) bool
_<=_ less_equals_uint64_int64 (uint, int) bool
_<=_ less_equals_double (double, double) bool
_<=_ less_equals_double_int64 (double, int) bool
_<=_ less_equals_double_uint64 (double, uint) bool
_<=_ less_equals_string (string, string) bool
_<=_ less_equals_bytes (bytes, bytes) bool
_<=_ less_equals_timestamp (timestamp, timestamp) bool
_<=_ less_equals_duration (duration, duration) bool
_>_ greater_bool (bool, bool) bool
_>_ greater_int64 (int, int) bool
_>_ greater_int64_double (int, double) bool
_>_ greater_int64_uint64 (int, uint) bool
_>_ greater_uint64 (uint, uint) bool
_>_ greater_uint64_double (uint, double) bool
_>_ greater_uint64_int64 (uint, int) bool
_>_ greater_double (double, double) bool
_>_ greater_double_int64 (double, int) bool
_>_ greater_double_uint64 (double, uint) bool
_>_ greater_string (string, string) bool
_>_ greater_bytes (bytes, bytes) bool
_>_ greater_timestamp (timestamp, timestamp) bool
_>_ greater_duration (duration, duration) bool
_>=_ greater_equals_bool (bool, bool) bool
_>=_ greater_equals_int64 (int, int) bool
_>=_ greater_equals_int64_double (int, double) bool
_>=_ greater_equals_int64_uint64 (int, uint) bool
_>=_ greater_equals_uint64 (uint, uint) bool
_>=_ greater_equals_uint64_double (uint, double) bool
_>=_ greater_equals_uint64_int64 (uint, int) bool
_>=_ greater_equals_double (double, double) bool
_>=_ greater_equals_double_int64 (double, int) bool
_>=_ greater_equals_double_uint64 (double, uint) bool
_>=_ greater_equals_string (string, string) bool
_>=_ greater_equals_bytes (bytes, bytes) bool
_>=_ greater_equals_timestamp (timestamp, timestamp) bool
_>=_ greater_equals_duration (duration, duration) bool
"""


EXTENSIONS: Final = """
url string_to_url (string) url
getScheme url_get_scheme url.() string
getHost url_get_host url.() string
getHostname url_get_hostname url.() string
getPort url_get_port url.() string
getEscapedPath url_get_escaped_path url.() string
getQuery url_get_query url.() map(string, list(string))
isURL is_url_string (string) bool
find string_find_string string.(string) string
findAll string_find_all_string string.(string) list(string)
findAll string_find_all_string_int string.(string, int) list(string)
isSorted list_int_is_sorted_bool list(int).() bool
isSorted list_uint_is_sorted_bool list(uint).() bool
isSorted list_double_is_sorted_bool list(double).() bool
isSorted list_bool_is_sorted_bool list(bool).() bool
isSorted list_duration_is_sorted_bool list(duration).() bool
isSorted list_timestamp_is_sorted_bool list(timestamp).() bool
isSorted list_string_is_sorted_bool list(string).() bool
isSorted list_bytes_is_sorted_bool list(bytes).() bool
sum list_int_sum_int list(int).() int
sum list_uint_sum_uint list(uint).() uint
sum list_double_sum_double list(double).() double
sum list_duration_sum_duration list(duration).() duration
max list_int_max_int list(int).() int
max list_uint_max_uint list(uint).() uint
max list_double_max_double list(double).() double
max list_bool_max_bool list(bool).() bool
max list_duration_max_duration list(duration).() duration
max list_timestamp_max_timestamp list(timestamp).() timestamp
max list_string_max_string list(string).() string
max list_bytes_max_bytes list(bytes).() bytes
min list_int_min_int list(int).() int
min list_uint_min_uint list(uint).() uint
min list_double_min_double list(double).() double
min list_bool_min_bool list(bool).() bool
min list_duration_min_duration list(duration).() duration
min list_timestamp_min_timestamp list(timestamp).() timestamp
min list_string_min_string list(string).() string
min list_bytes_min_bytes list(bytes).() bytes
indexOf list_a_index_of_int list(A).(A) int
lastIndexOf list_a_last_index_of_int list(A).(A) int
charAt string_char_at_int string.(int) string
indexOf string_index_of_string string.(string) int
indexOf string_index_of_string_int string.(string, int) int
lastIndexOf string_last_index_of_string string.(string) int
lastIndexOf string_last_index_of_string_int string.(string, int) int
lowerAscii string_lower_ascii string.() string
replace string_replace_string_string string.(string, string) string
replace string_replace_string_string_int string.(string, string, int) string
split string_split_string string.(string) list(string)
split string_split_string_int string.(string, int) list(string)
substring string_substring_int string.(int) string
substring string_substring_int_int string.(int, int) string
trim string_trim string.() string
upperAscii string_upper_ascii string.() string
join list_join list(string).() string
join list_join_string list(string).(string) string
"""


# Functions that a language may have, by the name of the feature.
LIBRARIES: Final = (
    {
        CEL_OPTIONALS: """
optional.of optional_of (A) optional_type(A)
optional.ofNonZeroValue optional_ofNonZeroValue (A) optional_type(A)
optional.none optional_none () optional_type(A)
value optional_value optional_type(A).() A
hasValue optional_hasValue optional_type(A).() bool
or optional_or_optional optional_type(A).(optional_type(A)) optional_type(A)
orValue optional_orValue_value optional_type(A).(A) A
_[?_] list_optindex_optional_int (list(A), int) optional_type(A)
_[?_] optional_list_optindex_optional_int (optional_type(list(A)), int) optional_type(A)
_[?_] map_optindex_optional_value (map(A, B), A) optional_type(B)
_[?_] optional_map_optindex_optional_value (optional_type(map(A, B)), A) optional_type(B)
_[_] optional_list_index_int (optional_type(list(A)), int) optional_type(A)
_[_] optional_map_index_value (optional_type(map(A, B)), A) optional_type(B)
""",
    }
    | {CEL_GLOBAL_MATCHES: "matches matches (string, string) bool"}
    | kubernetes.DECLARATIONS
    | extensions.DECLARATIONS
)


@cache
def functions(language: Language) -> dict[str, tuple[Overload, ...]]:
    """Return the functions of a language. Callers must not change the result."""
    found: dict[str, tuple[Overload, ...]] = {}
    texts = [STANDARD, EXTENSIONS, *(text for name, text in LIBRARIES.items() if name in language.features)]
    for overload in read("\n".join(map(str.strip, texts)), language.url_type):
        found[overload.function] = (*found.get(overload.function, ()), overload)
    return found


# Comparisons between different number types. v1.25 leaves them out, see `checker`.
MIXED_COMPARISONS: Final = frozenset(
    overload.id
    for overload in read(STANDARD, "")
    if overload.function in ("_<_", "_<=_", "_>_", "_>=_")
    and overload.parameters[0] != overload.parameters[1]
)


_A: Final = TypeParameter("A")
_STRUCT: Final = map_of(STRING, DYN)

# The type of a constructed well-known message, by the name of the message.
WELL_KNOWN: Final[dict[str, Type]] = {
    "google.protobuf.Any": ANY,
    "google.protobuf.BoolValue": wrapper_of(BOOL),
    "google.protobuf.BytesValue": wrapper_of(BYTES),
    "google.protobuf.DoubleValue": wrapper_of(DOUBLE),
    "google.protobuf.Duration": DURATION,
    "google.protobuf.FloatValue": wrapper_of(DOUBLE),
    "google.protobuf.Int32Value": wrapper_of(INT),
    "google.protobuf.Int64Value": wrapper_of(INT),
    "google.protobuf.ListValue": list_of(DYN),
    "google.protobuf.StringValue": wrapper_of(STRING),
    "google.protobuf.Struct": _STRUCT,
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.UInt32Value": wrapper_of(UINT),
    "google.protobuf.UInt64Value": wrapper_of(UINT),
    "google.protobuf.Value": DYN,
}

# The fields of the messages that an expression can construct.
MESSAGE_FIELDS: Final[dict[str, dict[str, Type]]] = {
    "google.protobuf.Any": {"type_url": STRING, "value": BYTES},
    "google.protobuf.Duration": {"seconds": INT, "nanos": INT},
    "google.protobuf.Empty": {},
    "google.protobuf.ListValue": {"values": list_of(DYN)},
    "google.protobuf.Struct": {"fields": _STRUCT},
    "google.protobuf.Timestamp": {"seconds": INT, "nanos": INT},
    "google.protobuf.Value": {
        "null_value": INT,
        "number_value": DOUBLE,
        "string_value": STRING,
        "bool_value": BOOL,
        "struct_value": _STRUCT,
        "list_value": list_of(DYN),
    },
} | {
    name: {"value": wrapped.parameters[0]}
    for name, wrapped in WELL_KNOWN.items()
    if wrapped.name == "wrapper"
}

# `duration` and `timestamp` alone are no types, but v1.25 declares the names: they compile, and have no value.
_IDENTIFIERS: Final[dict[str, Type]] = (
    {type_.name: type_of(type_) for type_ in (INT, UINT, BOOL, DOUBLE, BYTES, STRING)}
    | {
        "list": type_of(list_of(_A)),
        "map": type_of(map_of(_A, TypeParameter("B"))),
        "null_type": type_of(NULL),
        "type": type_of(Type("type")),
        "duration": DURATION,
        "timestamp": TIMESTAMP,
    }
    | {name: type_of(Type(name)) for name in MESSAGE_FIELDS}
)
_OPTIONAL_TYPE: Final = {OPTIONAL: type_of(optional_of(_A))}
_ADDRESS_TYPES: Final = {
    kubernetes.TYPES[name]: type_of(Type(kubernetes.TYPES[name])) for name in ("ip", "cidr")
}


@cache
def identifiers(language: Language) -> dict[str, Type]:
    """Return the names of types. Callers must not change the result."""
    optional = _OPTIONAL_TYPE if CEL_OPTIONALS in language.features else {}
    return _IDENTIFIERS | optional | (_ADDRESS_TYPES if CEL_ADDRESSES in language.features else {})
