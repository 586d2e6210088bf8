"""Commands and their replies as msgpack, for a caller in another process than the actors.

A message is a map: `kind`, the name of its class, and `fields` by name, without those that have their default, which
therefore stays what it is. A reader ignores fields that it does not know, so that processes of two releases understand
each other while one of them is restarted; an unknown kind, or a missing field without a default, is refused
(`BadMessage`). `tests/actors/test_message_encoding.py` has the bytes of one of each kind.

Documents (the object or patch of a command) are JSON inside of the message: msgpack stops at 511 levels, and orjson
takes half of its time.

Three fields of a `WriteContext` are of its process. `deadline` is a time of trio's clock: the remaining seconds are
sent. `annotations` and `webhook_seconds` are dicts that admission adds to: it adds to a copy, which comes back with the
reply, and `decode_reply` adds what is new to the dicts of the caller.

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
    """Bytes that are no message of this release, or of one that it understands."""


class Crashed(Exception):
    """The process of the actors failed on a command; its log says why."""


def encode_command(command: Command, now: float) -> bytes:
    """`now` is the time of trio's clock in this process."""
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
    """`now` is the time of trio's clock in this process. BadMessage."""
    kind, fields = _kind_and_fields(_unpacked(message))
    made = _COMMANDS.get(kind)
    if made is None:
        raise BadMessage(f"no command is called {kind!r}")
    context = fields.get("context")
    if isinstance(context, dict) and (remaining := context.pop("remaining_seconds", None)) is not None:
        context["deadline"] = now + remaining
    return cast(Command, made.of(fields))


def encode_reply(result: Outcome | BaseException, context: WriteContext) -> bytes:
    """`context` is that of the decoded command: what admission added to its dicts goes back."""
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
    for name in _RETURNED:
        if (added := getattr(context, name)) is not None:
            reply[name] = added
    return _pack(reply)


def decode_reply(message: bytes, context: WriteContext) -> Outcome | Exception:
    """The outcome, or the error to raise. `context` is that of the sent command: its dicts are added to. BadMessage."""
    reply = _unpacked(message)
    kind, fields = _kind_and_fields(reply)
    result = _result(kind, fields)
    for name in _RETURNED:
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


def _error(made_by: type[RequestError], fields: Map) -> RequestError:
    """Without its constructor, which would derive the message again."""
    error = made_by.__new__(made_by)
    for name, value in fields.items():
        restore = _OF_ERRORS.get(name)
        try:
            setattr(error, name, value if restore is None else restore(value))
        except TypeError as problem:
            raise BadMessage(f"{made_by.__name__}: {problem}") from None
    return error


def _journal_error(error: Damaged | CannotRead) -> type[Exception]:
    return Damaged if isinstance(error, Damaged) else CannotRead


class _Form(NamedTuple):
    """How a class becomes the fields of a message, and is made of them."""

    make: Callable[..., Any]
    names: tuple[str, ...]
    known: frozenset[str]  # the names
    defaults: tuple[Any, ...]  # for each name; _REQUIRED, which equals nothing, if there is none
    values: Callable[[Any], Iterable[Any]]  # of a message, for each name
    restored: tuple[tuple[str, Restore], ...]  # fields that are not what msgpack returns

    def of(self, fields: Map) -> Any:
        """What the fields of a message describe; they are of the message alone, and are changed."""
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
_RETURNED: Final = ("annotations", "webhook_seconds")  # of a context: with the reply
# Every error of a write, by name.
_ERRORS: Final[Mapping[str, type[RequestError]]] = {
    one.__name__: one
    for one in (*vars(errors).values(), TookTooLong, TooMuchLargeWork)
    if isinstance(one, type) and issubclass(one, RequestError)
}
_OF_ERRORS: Final[Mapping[str, Restore]] = {
    "resource": _optional(_RESOURCE.of),
    "causes": lambda value: tuple(map(_CAUSE.of, value)),
    "reasons": tuple,
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
    """Without those that have their default."""
    form = _FORMS[type(message)]
    return {
        name: value
        for name, value, default in zip(form.names, form.values(message), form.defaults)  # noqa: B905
        if value != default
    }


@lru_cache(maxsize=256)
def _user_fields(user: User) -> Map:
    """Most writes are of a few users."""
    fields = _fields(user)
    return {name: list(value) if type(value) is tuple else value for name, value in fields.items()}


def _plain(value: Any) -> Any:
    """What msgpack cannot encode by itself. A type that has no form is a bug of the sender: TypeError."""
    if type(value) is tuple:
        return list(value)
    if type(value) in _FORMS:
        return _fields(value)
    raise TypeError(f"a message cannot have a {type(value).__name__}")


# Texts of clients may have any character, also half of a surrogate pair. `strict_types`: a NamedTuple is no array.
_ANY_TEXT: Final = "surrogatepass"


def _pack(message: Map) -> bytes:
    return cast(bytes, msgpack.packb(message, default=_plain, strict_types=True, unicode_errors=_ANY_TEXT))


def _unpacked(message: bytes) -> Map:
    try:
        found = msgpack.unpackb(message, unicode_errors=_ANY_TEXT)
    except Exception as error:  # of many classes, which msgpack does not promise
        raise BadMessage(f"no message: {error}") from None
    if not isinstance(found, dict):
        raise BadMessage("no message: it is no map")
    return found


def _kind_and_fields(message: Map) -> tuple[str, Map]:
    kind, fields = message.get("kind"), message.get("fields")
    if not isinstance(kind, str) or not isinstance(fields, dict):
        raise BadMessage("a message needs its kind and its fields")
    return kind, fields
