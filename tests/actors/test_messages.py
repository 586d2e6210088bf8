"""Every command survives a round trip through msgpack, so that it can be sent to another process."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, get_args

import msgpack

from actors import messages
from actors.identity import User
from actors.messages import Command, Create, Delete, DeleteOptions, Patch, Replace, Submit, WriteContext
from tests.cases import cases

USER = User("alice", "1", ("devs",), (("scopes", ("a", "b")),))
CONTEXT = WriteContext(1, "alice", "kubectl", "uid", "abcde", USER)
OBJECT = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"list": [1, None, 2.5, {"b": True}]}}
COMMANDS: tuple[Command, ...] = (
    Create("v1", "default", OBJECT, CONTEXT),
    Replace("v1", "default", "a", OBJECT, CONTEXT, "status", dry_run=True, may_create=True),
    Patch("v1", "default", "a", "json", [{"op": "remove", "path": "/a"}], CONTEXT, problems=("p",)),
    Patch("v1", "default", "a", "apply", OBJECT, CONTEXT, force=True, may_create=True, annotation="x"),
    Submit("v1", "default", "a", "binding", OBJECT, CONTEXT),
    Delete("v1", "default", "a", CONTEXT, DeleteOptions(30, "Orphan", "uid", "7"), "deletecollection"),
)


def field_names(one: Any) -> list[str] | None:
    """The fields of a message or its type; None for any other value."""
    if is_dataclass(one):
        return [field.name for field in fields(one)]
    return list(one._fields) if hasattr(one, "_fields") else None


TYPES = {one.__name__: one for one in vars(messages).values() if field_names(one)} | {"User": User}


def plain(value: Any) -> Any:
    names = field_names(value)
    if names is not None:
        return {"": type(value).__name__, **{name: plain(getattr(value, name)) for name in names}}
    return {"": "tuple", "items": [plain(one) for one in value]} if isinstance(value, tuple) else value


def rebuilt(value: Any) -> Any:
    if not isinstance(value, dict) or "" not in value:
        return value
    if value[""] == "tuple":
        return tuple(rebuilt(one) for one in value["items"])
    return TYPES[value.pop("")](**{name: rebuilt(one) for name, one in value.items()})


@cases("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_command_survives_round_trip(command: Command) -> None:
    assert rebuilt(msgpack.unpackb(msgpack.packb(plain(command)))) == command


def test_every_command_is_covered() -> None:
    assert {type(one) for one in COMMANDS} == set(get_args(Command))
