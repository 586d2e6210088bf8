"""Commands and their replies as msgpack, for callers in other processes than that of the actors.

A message is a map: `kind` is the name of its class, `fields` has the values by name. Fields that have their default
value are left out. A reader ignores unknown fields, so that processes of two releases understand each other while one
of them restarts. It refuses an unknown kind, and a missing field that has no default (`BadMessage`).
`tests/actors/test_message_encoding.py` has the bytes of one message of each kind.

Documents (the object or patch of a command) are JSON inside the message: msgpack stops at 511 levels, and orjson
takes half the time.

Three fields of a `WriteContext` only make sense in its own process. `deadline` is a time of trio's clock: the message
has the remaining seconds instead. `annotations` and `webhook_seconds` are dicts that admission adds to: it adds to
copies, which come back with the reply, and `decode_reply` merges them into the dicts of the caller.

A reply has an outcome or an error. Errors arrive with their class and all their attributes, so that the gateway makes
the same Status of them; of an unreadable journal only the text for clients is sent. Any other exception is a bug: the
process in which it happened logs it, the caller gets `Crashed`.

Rejected: pickle, which runs what it reads; arrays without names, which a new field would shift.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from inspect import Parameter, signature
from operator import attrgetter
from typing import Any, Final, NamedTuple, cast

import msgpack
import orjson

from rewound.actors import errors
from rewound.actors.errors import Cause, RequestError, Resource
from rewound.actors.golang.json import unescaped
from rewound.actors.identity import User
from rewound.actors.messages import (
    Command,
    Create,
    Delete,
    Deleted,
    DeleteOptions,
    Outcome,
    Patch,
    Replace,
    Submit,
    WriteContext,
    Written,
)
from rewound.actors.runtime.large_work import TooMuchLargeWork
from rewound.actors.runtime.time_limit import TookTooLong
from rewound.journal.errors import CannotRead, Damaged

Map = dict[str, Any]
Restore = Callable[[Any], Any]


class BadMessage(ValueError):
    """These bytes are not a message of this release, or of one that it understands."""


class Crashed(Exception):
    """The process of the actors failed on a command; its log says why."""


def encode_command(command: Command, now: float) -> bytes:
    """Encode a command. `now` is the time of trio's clock in this process."""
    fields = _fields(command)
    context = fields["context"] = _fields(command.context)
    if (deadline := context.pop("deadline", None)) is not None:
        context["remaining_seconds"] = deadline - now
    if (caller := command.context.caller) is not None:
        context["caller"] = _user_fields(caller)
    for name in _DOCUMENTS:
        if name in fields:
            fields[name] = unescaped(fields[name])
    return _pack({"kind": type(command).__name__, "fields": fields})


def decode_command(message: bytes, now: float) -> Command:
    """Decode a command. `now` is the time of trio's clock in this process. Raises BadMessage if it cannot be read."""
    kind, fields = _kind_and_fields(_unpacked(message))
    made = _COMMANDS.get(kind)
    if made is None:
        raise BadMessage(f"no command is called {kind!r}")
    context = fields.get("context")
    if isinstance(context, dict) and (remaining := context.pop("remaining_seconds", None)) is not None:
        context["deadline"] = now + remaining
    return cast(Command, made.of(fields))


def encode_reply(result: Outcome | BaseException, context: WriteContext) -> bytes:
    """Encode the result of a command. `context` is that of the decoded command, whose dicts go back to the caller."""
    reply: Map = {"kind": type(result).__name__}
    match result:
        case Written() | Deleted():
            reply["fields"] = _fields(result)
        case RequestError() if type(result).__name__ in _ERRORS:
            reply["fields"] = vars(result)
        case Damaged() | CannotRead():
            reply |= {"kind": _journal_error(result).__name__, "fields": {"text": result.public}}
        case _:
            reply |= {"kind": Crashed.__name__, "fields": {}}
    for name in _RETURNED_FIELDS:
        if (added := getattr(context, name)) is not None:
            reply[name] = added
    return _pack(reply)


def decode_reply(message: bytes, context: WriteContext) -> Outcome | Exception:
    """Return the outcome, or the error to raise. Merges what admission added into the dicts of `context`.

    `context` is that of the command as it was sent. Raises BadMessage if the reply cannot be read.
    """
    reply = _unpacked(message)
    kind, fields = _kind_and_fields(reply)
    result = _result(kind, fields)
    for name in _RETURNED_FIELDS:
        if (of_caller := getattr(context, name)) is not None:
            of_caller.update(reply.get(name) or {})
    return result


def _result(kind: str, fields: Map) -> Outcome | Exception:
    if (outcome := _OUTCOMES.get(kind)) is not None:
        return cast(Outcome, outcome.of(fields))
    if (error := _ERRORS.get(kind)) is not None:
        return _error(error, fields)
    if (unreadable := _JOURNAL_ERRORS.get(kind)) is not None:
        text = fields.get("text", "")
        made = unreadable.__new__(unreadable, text)
        made.path = None
        return made
    if kind == Crashed.__name__:
        return Crashed("the process of the actors failed on a command; its log says why")
    raise BadMessage(f"no result is called {kind!r}")


def _error(error_class: type[RequestError], fields: Map) -> RequestError:
    """Create the error without its constructor, which would derive the message again."""
    error = error_class.__new__(error_class)
    for name, value in fields.items():
        restore = _ERROR_FIELDS.get(name)
        try:
            setattr(error, name, value if restore is None else restore(value))
        except TypeError as problem:
            raise BadMessage(f"{error_class.__name__}: {problem}") from None
    return error


def _journal_error(error: Damaged | CannotRead) -> type[Exception]:
    return Damaged if isinstance(error, Damaged) else CannotRead


class _Form(NamedTuple):
    """How to turn instances of a class into message fields, and fields into instances."""

    make: Callable[..., Any]
    names: tuple[str, ...]
    known: frozenset[str]  # `names` as a set
    defaults: tuple[Any, ...]  # by position in `names`; _REQUIRED, which equals nothing, if there is none
    values: Callable[[Any], Iterable[Any]]  # the values of an instance, by position in `names`
    restored: tuple[tuple[str, Restore], ...]  # fields that msgpack returns as another type

    def of(self, fields: Map) -> Any:
        """Create an instance from the fields of a message, which are changed on the way."""
        try:
            for name, restore in self.restored:
                if name in fields:
                    fields[name] = restore(fields[name])
            if not self.known.issuperset(fields):
                fields = {name: value for name, value in fields.items() if name in self.known}
            return self.make(**fields)
        except (TypeError, ValueError) as error:
            raise BadMessage(f"{self.make.__name__}: {error}") from None


_REQUIRED: Final = object()


def _form(made: type, **restored: Restore) -> _Form:
    parameters = signature(made).parameters
    names = tuple(parameters)
    defaults = tuple(
        _REQUIRED if one.default is Parameter.empty else one.default for one in parameters.values()
    )
    values: Callable[[Any], Iterable[Any]] = attrgetter(*names) if len(names) > 1 else _only(names[0])
    if issubclass(made, tuple):
        values = iter
    return _Form(made, names, frozenset(names), defaults, values, tuple(restored.items()))


def _only(name: str) -> Callable[[Any], Iterable[Any]]:
    return lambda message: (getattr(message, name),)


def _optional(restore: Restore) -> Restore:
    return lambda value: None if value is None else restore(value)


def _pairs(value: Any) -> tuple[tuple[Any, Any], ...]:
    return tuple((name, one) for name, one in value)


_USER: Final = _form(
    User, groups=tuple, extra=lambda value: tuple((key, tuple(texts)) for key, texts in value)
)
_CONTEXT: Final = _form(WriteContext, caller=_optional(_USER.of), options=_pairs)
_OPTIONS: Final = _form(DeleteOptions)
_RESOURCE: Final = _form(Resource)
_CAUSE: Final = _form(Cause)
_COMMANDS: Final = {
    "Create": _form(Create, context=_CONTEXT.of, object=orjson.loads),
    "Replace": _form(Replace, context=_CONTEXT.of, object=orjson.loads),
    "Patch": _form(Patch, context=_CONTEXT.of, patch=orjson.loads, problems=tuple),
    "Submit": _form(Submit, context=_CONTEXT.of, object=orjson.loads),
    "Delete": _form(Delete, context=_CONTEXT.of, options=_OPTIONS.of),
}
_DOCUMENTS: Final = ("object", "patch")
_OUTCOMES: Final = {"Written": _form(Written, warnings=tuple), "Deleted": _form(Deleted, warnings=tuple)}
_RETURNED_FIELDS: Final = ("annotations", "webhook_seconds")  # of a context, with the reply
# Every error that a write can fail with, by name.
_ERRORS: Final[Mapping[str, type[RequestError]]] = {
    one.__name__: one
    for one in (*vars(errors).values(), TookTooLong, TooMuchLargeWork)
    if isinstance(one, type) and issubclass(one, RequestError)
}
_ERROR_FIELDS: Final[Mapping[str, Restore]] = {
    "resource": _optional(_RESOURCE.of),
    "causes": lambda value: tuple(map(_CAUSE.of, value)),
    "reasons": tuple,
    "annotations": lambda value: tuple((key, text) for key, text in value),
    "warnings": tuple,
}
_JOURNAL_ERRORS: Final[Mapping[str, type[Damaged] | type[CannotRead]]] = {
    "Damaged": Damaged,
    "CannotRead": CannotRead,
}
_FORMS: Final[Mapping[Any, _Form]] = {
    form.make: form
    for form in (_USER, _CONTEXT, _OPTIONS, _RESOURCE, _CAUSE, *_COMMANDS.values(), *_OUTCOMES.values())
}


def _fields(message: Any) -> Map:
    """Return the fields that do not have their default value."""
    form = _FORMS[type(message)]
    return {
        name: value
        for name, value, default in zip(form.names, form.values(message), form.defaults)  # noqa: B905
        if value != default
    }


@lru_cache(maxsize=256)
def _user_fields(user: User) -> Map:
    """The fields of a user; cached, because a few users make most writes."""
    fields = _fields(user)
    return {name: list(value) if type(value) is tuple else value for name, value in fields.items()}


def _plain(value: Any) -> Any:
    """Encode what msgpack cannot. Raises TypeError for a type without a form, which is a bug of the sender."""
    if type(value) is tuple:
        return list(value)
    if type(value) in _FORMS:
        return _fields(value)
    raise TypeError(f"a message cannot have a {type(value).__name__}")


# Clients' texts may contain any character, even half of a surrogate pair. `strict_types`: encode a NamedTuple as its
# fields, not as an array.
_ANY_TEXT: Final = "surrogatepass"


def _pack(message: Map) -> bytes:
    return cast(bytes, msgpack.packb(message, default=_plain, strict_types=True, unicode_errors=_ANY_TEXT))


def _unpacked(message: bytes) -> Map:
    try:
        found = msgpack.unpackb(message, unicode_errors=_ANY_TEXT)
    except Exception as error:  # msgpack does not document which classes it raises
        raise BadMessage(f"not a message: {error}") from None
    if not isinstance(found, dict):
        raise BadMessage("not a message: not a map")
    return found


def _kind_and_fields(message: Map) -> tuple[str, Map]:
    kind, fields = message.get("kind"), message.get("fields")
    if not isinstance(kind, str) or not isinstance(fields, dict):
        raise BadMessage("a message needs a kind and fields")
    return kind, fields
