"""Commands, outcomes and errors survive encoding and decoding between processes."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from math import inf
from typing import Any, get_args

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rewound import actors
from rewound.actors import errors
from rewound.actors.errors import Cause, PathTooLong, RequestError, Resource
from rewound.actors.flowcontrol.seats import NoSeat
from rewound.actors.golang.json import DEEPEST
from rewound.actors.identity import User
from rewound.actors.message_encoding import (
    BadMessage,
    Crashed,
    decode_command,
    decode_reply,
    encode_command,
    encode_reply,
)
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
from rewound.actors.store.etcd.committer import NotLeading
from rewound.journal.errors import CannotRead, Damaged, StorageFull
from tests.cases import cases
from tests.examples import examples

USER = User("alice", "1", ("devs",), (("scopes", ("a", "b")),))
CONTEXT = WriteContext(1, "alice", "kubectl", "uid", "abcde", USER)
NOWHERE = WriteContext(0, "u", "m", "", "")

text = st.text(max_size=20)
texts = st.lists(text, max_size=3).map(tuple)
numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
json = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(text, json, max_size=3)
users = st.builds(User, text, text, texts, st.lists(st.tuples(text, texts), max_size=2).map(tuple))
contexts = st.builds(
    WriteContext,
    time=st.integers(0, 2**62),
    user=text,
    manager=text,
    uid=text,
    suffix=text,
    caller=st.none() | users,
    large=st.booleans(),
    options=st.lists(st.tuples(text, text), max_size=2).map(tuple),
    annotations=st.none() | st.dictionaries(text, text, max_size=2),
    reason=text,
    deadline=st.just(inf) | st.integers(-100, 100).map(float),
    webhook_seconds=st.none() | st.dictionaries(text, st.floats(0, 10), max_size=2),
)
options = st.builds(
    DeleteOptions,
    st.none() | st.integers(0, 2**62),
    text,
    st.none() | text,
    st.none() | text,
    st.booleans(),
    st.none() | st.booleans(),
)
flags = st.booleans()
COMMANDS: dict[type, SearchStrategy[Command]] = {
    Create: st.builds(Create, text, text, objects, contexts, flags),
    Replace: st.builds(Replace, text, text, text, objects, contexts, text, flags, flags),
    Patch: st.builds(
        Patch, text, text, text, text, json, contexts, text, flags, text, texts, flags, flags, text
    ),
    Submit: st.builds(Submit, text, text, text, text, objects, contexts, flags),
    Delete: st.builds(Delete, text, text, text, contexts, options, text, flags),
}
OUTCOMES: dict[type, SearchStrategy[Outcome]] = {
    Written: st.builds(Written, st.binary(), flags, texts),
    Deleted: st.builds(Deleted, st.binary(), text, text, flags, texts),
}
resources = st.builds(Resource, text, text)
causes = st.lists(st.builds(Cause, text, text, text), max_size=3)
ERRORS: dict[type[RequestError], SearchStrategy[RequestError]] = {
    errors.NotFound: st.builds(errors.NotFound, resources, text),
    errors.NoSuchResource: st.builds(errors.NoSuchResource),
    errors.AlreadyExists: st.builds(
        errors.AlreadyExists, resources, text, generated=flags, terminating=flags
    ),
    errors.Conflict: st.builds(errors.Conflict, resources, text, text, causes),
    errors.ApplyConflict: st.builds(errors.ApplyConflict, text, causes),
    errors.Invalid: st.builds(
        errors.Invalid, text, text, text, st.lists(st.builds(Cause, text, text, text), min_size=1, max_size=3)
    ),
    errors.BadRequest: st.builds(errors.BadRequest, text),
    errors.AdmissionFailed: st.builds(errors.AdmissionFailed, text),
    errors.IllTyped: st.builds(errors.IllTyped, text),
    errors.Unprocessable: st.builds(errors.Unprocessable, text),
    errors.NotOfItsKind: st.builds(errors.NotOfItsKind, resources, text, text),
    errors.PatchFailed: st.builds(errors.PatchFailed, text),
    errors.NotOfItsKind: st.builds(errors.NotOfItsKind, resources, text, text),
    errors.NoJson: st.builds(errors.NoJson, resources, text),
    errors.Forbidden: st.builds(errors.Forbidden, st.none() | resources, text, text, causes),
    errors.PolicyDenied: st.builds(errors.PolicyDenied, st.none() | resources, text, text, text),
    errors.MutationDenied: st.builds(
        errors.MutationDenied, st.none() | resources, text, st.lists(text, min_size=1, max_size=2), text
    ),
    errors.NotANumber: st.builds(errors.NotANumber, text),
    errors.EvictionRefused: st.builds(errors.EvictionRefused, text, st.integers(0, 100)),
    errors.TooManyBudgets: st.builds(errors.TooManyBudgets),
    errors.Unauthorized: st.builds(
        errors.Unauthorized, texts, st.lists(st.tuples(st.text(), st.text()), max_size=2)
    ),
    errors.AuthorizationFailed: st.builds(errors.AuthorizationFailed, text),
    errors.KeysUnusable: st.builds(errors.KeysUnusable),
    errors.Expired: st.builds(errors.Expired, text, text),
    errors.VersionTooLarge: st.builds(errors.VersionTooLarge, st.integers(), st.integers()),
    errors.TimedOut: st.builds(errors.TimedOut, text),
    errors.WriteTimedOut: st.builds(errors.WriteTimedOut, requested=flags),
    errors.TooLarge: st.builds(errors.TooLarge, text),
    TookTooLong: st.builds(TookTooLong, st.floats(0, 10)),
    errors.DefaultsTooLarge: st.builds(errors.DefaultsTooLarge, st.integers()),
    errors.RequestTooLarge: st.builds(errors.RequestTooLarge, text),
    errors.Overloaded: st.builds(errors.Overloaded),
    TooMuchLargeWork: st.builds(TooMuchLargeWork),
    errors.RateLimited: st.builds(errors.RateLimited, text),
    errors.ShuttingDown: st.builds(errors.ShuttingDown),
    errors.WriterUnavailable: st.builds(errors.WriterUnavailable),
    errors.Unreachable: st.builds(errors.Unreachable, text),
    errors.OutcomeUnclear: st.builds(errors.OutcomeUnclear, text),
    errors.StorageRefused: st.builds(errors.StorageRefused, text),
    errors.Exhausted: st.builds(errors.Exhausted, text),
    errors.NoReplicas: st.builds(errors.NoReplicas, text),
    errors.WebhookFailed: st.builds(errors.WebhookFailed, text),
    errors.ConversionFailed: st.builds(errors.ConversionFailed, text),
    errors.WebhookDenied: st.builds(
        errors.WebhookDenied, st.integers(400, 599), text, text, st.none() | objects
    ),
}


def subclasses(of: type) -> Iterator[type]:
    for one in of.__subclasses__():
        yield one
        yield from subclasses(one)


def test_every_message_has_a_form() -> None:
    """A new message class needs one too: in the module, and above."""
    assert set(COMMANDS) == set(get_args(Command))
    assert set(OUTCOMES) == set(get_args(Outcome))
    for one in pkgutil.walk_packages(actors.__path__, "rewound.actors."):
        importlib.import_module(one.name)
    known = {one for one in subclasses(RequestError) if one.__module__.startswith("rewound.actors.")}
    # What flow control and routing refuse gets no further than the process that serves the request; controllers are in
    # the process of the actors.
    known = {one for one in known if not one.__module__.startswith("rewound.actors.workloads.")}
    assert known - {NoSeat, NotLeading, PathTooLong} == set(ERRORS)


@given(st.one_of(list(COMMANDS.values())))
def test_command_arrives_as_it_was_sent(command: Command) -> None:
    arrived = decode_command(encode_command(command, now=7.0), now=7.0)
    assert type(arrived) is type(command) and arrived == command


@given(st.one_of(list(OUTCOMES.values())))
def test_outcome_arrives_as_it_was_sent(outcome: Outcome) -> None:
    arrived = decode_reply(encode_reply(outcome, NOWHERE), NOWHERE)
    assert type(arrived) is type(outcome) and arrived == outcome


@pytest.mark.parametrize("made", ERRORS.values(), ids=[one.__name__ for one in ERRORS])
@examples(5)
@given(data=st.data(), warnings=texts)
def test_error_arrives_as_it_was_sent(
    made: SearchStrategy[RequestError], data: st.DataObject, warnings: tuple[str, ...]
) -> None:
    error = data.draw(made)
    if warnings:
        error.warnings = warnings
    arrived = decode_reply(encode_reply(error, NOWHERE), NOWHERE)
    assert type(arrived) is type(error) and isinstance(arrived, RequestError)
    assert vars(arrived) == vars(error)
    assert (str(arrived), arrived.warnings) == (str(error), warnings)


def test_deadline_is_as_far_away_by_the_clock_of_the_other_process() -> None:
    command = Create("v1", "default", {}, CONTEXT._replace(deadline=105.0))
    assert decode_command(encode_command(command, now=100.0), now=9000.0).context.deadline == 9005.0
    without = Create("v1", "default", {}, CONTEXT)
    assert decode_command(encode_command(without, now=100.0), now=9000.0).context.deadline == inf


def test_reply_has_what_admission_added() -> None:
    audited, measured = {"before": "1"}, {"a": 1.0}
    context = CONTEXT._replace(annotations=audited, webhook_seconds=measured)
    arrived = decode_command(encode_command(Create("v1", "d", {}, context), now=0), now=0).context
    assert arrived.annotations is not None and arrived.webhook_seconds is not None
    arrived.annotations["after"] = "2"
    arrived.webhook_seconds["b"] = 0.5
    decode_reply(encode_reply(errors.ShuttingDown(), arrived), context)
    assert audited == {"before": "1", "after": "2"}
    assert measured == {"a": 1.0, "b": 0.5}


def test_unreadable_journal_arrives_without_its_path(tmp_path: Any) -> None:
    for error in (
        Damaged(f"a record in {tmp_path}", tmp_path),
        CannotRead(tmp_path, "too many readers"),
    ):
        arrived = decode_reply(encode_reply(error, NOWHERE), NOWHERE)
        assert type(arrived) is type(error) and isinstance(arrived, Damaged | CannotRead)
        assert str(arrived) == arrived.public == error.public
        assert str(tmp_path) not in str(arrived)


@cases("crash", [ZeroDivisionError("1/0"), StorageFull(None, "x"), KeyError("secret")])  # type: ignore[arg-type]
def test_bug_arrives_without_its_text(crash: Exception) -> None:
    arrived = decode_reply(encode_reply(crash, NOWHERE), NOWHERE)
    assert type(arrived) is Crashed and "secret" not in str(arrived)


def test_text_that_is_no_unicode_arrives() -> None:
    command = Delete("v1", "d", "a\ud800", CONTEXT._replace(manager="\udfff"))
    assert decode_command(encode_command(command, now=0), now=0) == command


def changed(message: bytes, **changes: Any) -> bytes:
    found = msgpack.unpackb(message)
    for path, value in changes.items():
        where, *names = path.split("__")
        inner = found
        for name in names:
            inner, where = inner[where], name
        if value is None:
            inner.pop(where)
        else:
            inner[where] = value
    packed: bytes = msgpack.packb(found)
    return packed


DELETE = Delete("v1", "default", "a", CONTEXT, DeleteOptions(30, "Orphan", "uid", "7"), "deletecollection")


def test_fields_of_a_later_release_are_ignored() -> None:
    sent = encode_command(DELETE, now=0)
    later = changed(sent, later=1, fields__later=1, fields__context__later=1, fields__options__later=1)
    assert decode_command(later, now=0) == DELETE
    written = encode_reply(Written(b"{}", True), NOWHERE)
    assert decode_reply(changed(written, fields__later=1), NOWHERE) == Written(b"{}", True)


@cases(
    "message",
    [
        b"",
        b"\xc1",
        msgpack.packb([1]),
        msgpack.packb({"kind": "Create"}),
        msgpack.packb({"kind": "Create", "fields": {}}),
        msgpack.packb({"kind": "Create", "fields": {"context": 7}}),
        msgpack.packb({"kind": 7, "fields": {}}),
        changed(encode_command(DELETE, now=0), kind="Deleted"),
        changed(encode_command(DELETE, now=0), kind="Restore"),
        changed(encode_command(DELETE, now=0), fields__name=None),
        changed(encode_command(DELETE, now=0), fields__context__user=None),
        changed(encode_command(DELETE, now=0), fields__options=7),
        encode_command(DELETE, now=0)[:-1],
        encode_command(DELETE, now=0) + b"\0",
    ],
)
def test_bad_command_is_refused(message: bytes) -> None:
    with pytest.raises(BadMessage):
        decode_command(message, now=0)


@cases(
    "message",
    [
        b"",
        changed(encode_reply(Written(b""), NOWHERE), kind="Create"),
        changed(encode_reply(Written(b""), NOWHERE), kind="NoSeat"),
        changed(encode_reply(Written(b""), NOWHERE), fields__body=None),
        changed(encode_reply(errors.Unauthorized(["x"]), NOWHERE), fields__reasons=7),
        encode_command(DELETE, now=0),
    ],
)
def test_bad_reply_is_refused(message: bytes) -> None:
    with pytest.raises(BadMessage):
        decode_reply(message, NOWHERE)


def test_value_without_a_form_is_not_sent() -> None:
    class Text(str):
        pass

    with pytest.raises(TypeError, match="a message cannot have a Text"):
        encode_command(Create("v1", Text("d"), {}, CONTEXT), now=0)


def test_documents_of_any_allowed_depth_arrive() -> None:
    nested: Any = 1
    for _ in range(DEEPEST):
        nested = {"a": nested}
    for command in (Create("v1", "d", nested, CONTEXT), Patch("v1", "d", "a", "merge", nested, CONTEXT)):
        assert decode_command(encode_command(command, now=0), now=0) == command


OBJECT = {"metadata": {"name": "a"}}
SENT: dict[str, Command] = {
    "create": Create("v1", "default", OBJECT, CONTEXT),
    "replace": Replace("v1", "default", "a", OBJECT, CONTEXT, "status", dry_run=True, may_create=True),
    "patch": Patch("v1", "default", "a", "json", [{"op": "remove", "path": "/a"}], CONTEXT, problems=("p",)),
    "submit": Submit("v1", "default", "a", "binding", OBJECT, CONTEXT),
    "delete": DELETE,
}
RESULTS: dict[str, Outcome | Exception] = {
    "written": Written(b"{}", True, ("w",)),
    "deleted": Deleted(b"{}", "a", "uid", False),
    "conflict": errors.Conflict(Resource("apps", "deployments"), "a", "x", [Cause("r", "m", "f")]),
    "damaged": Damaged("event 1 is cut short"),
    "crashed": ValueError("bug"),
}
CONTEXT_BYTES = (
    b"\xa7context\x86\xa4time\x01\xa4user\xa5alice\xa7manager\xa7kubectl\xa3uid\xa3uid\xa6suffix\xa5abcde"
    b"\xa6caller\x84\xa4name\xa5alice\xa3uid\xa11\xa6groups\x91\xa4devs\xa5extra\x91\x92\xa6scopes\x92\xa1a\xa1b"
)
NAMES = b"\xa7version\xa2v1\xa9namespace\xa7default"
OBJECT_BYTES = b'\xa6object\xc4\x19{"metadata":{"name":"a"}}'
SENT_BYTES = {
    "create": b"\x82\xa4kind\xa6Create\xa6fields\x84" + NAMES + OBJECT_BYTES + CONTEXT_BYTES,
    "replace": b"\x82\xa4kind\xa7Replace\xa6fields\x88"
    + NAMES
    + b"\xa4name\xa1a"
    + OBJECT_BYTES
    + CONTEXT_BYTES
    + b"\xabsubresource\xa6status\xa7dry_run\xc3\xaamay_create\xc3",
    "patch": b"\x82\xa4kind\xa5Patch\xa6fields\x87"
    + NAMES
    + b"\xa4name\xa1a\xa6format\xa4json\xa5patch\xc4\x1d"
    + b'[{"op":"remove","path":"/a"}]'
    + CONTEXT_BYTES
    + b"\xa8problems\x91\xa1p",
    "submit": b"\x82\xa4kind\xa6Submit\xa6fields\x86"
    + NAMES
    + b"\xa4name\xa1a\xabsubresource\xa7binding"
    + OBJECT_BYTES
    + CONTEXT_BYTES,
    "delete": b"\x82\xa4kind\xa6Delete\xa6fields\x86"
    + NAMES
    + b"\xa4name\xa1a"
    + CONTEXT_BYTES
    + b"\xa7options\x84\xb4grace_period_seconds\x1e\xb2propagation_policy\xa6Orphan\xa3uid\xa3uid"
    + b"\xb0resource_version\xa17\xa4verb\xb0deletecollection",
}
# As the first release with several processes sent it: with all fields.
EARLIER_BYTES = (
    b"\x82\xa4kind\xa6Create\xa6fields\x85"
    + NAMES
    + OBJECT_BYTES
    + CONTEXT_BYTES.replace(b"context\x86", b"context\x8c")
    + b"\xa5large\xc2\xa7options\x90\xabannotations\xc0\xa6reason\xa0\xafwebhook_seconds\xc0"
    + b"\xb1remaining_seconds\xc0\xa7dry_run\xc2"
)
RESULT_BYTES = {
    "written": b"\x82\xa4kind\xa7Written\xa6fields\x83\xa4body\xc4\x02{}\xa7created\xc3\xa8warnings\x91\xa1w",
    "deleted": b"\x82\xa4kind\xa7Deleted\xa6fields\x84\xa4body\xc4\x02{}\xa4name\xa1a\xa3uid\xa3uid"
    b"\xa7removed\xc2",
    "conflict": b"\x82\xa4kind\xa8Conflict\xa6fields\x84\xa8resource\x82\xa5group\xa4apps\xa6plural\xabdeployments"
    b"\xa4name\xa1a\xa6causes\x91\x83\xa6reason\xa1r\xa7message\xa1m\xa5field\xa1f"
    b'\xa7message\xd98Operation cannot be fulfilled on deployments.apps "a": x',
    "damaged": b"\x82\xa4kind\xa7Damaged\xa6fields\x81\xa4text\xd9\x9aevent 1 is cut short: run `rewound journal "
    b"verify` on the data folder, then restore it from a backup, or save what is sound with "
    b"`rewound journal recover`",
    "crashed": b"\x82\xa4kind\xa7Crashed\xa6fields\x80",
}


def test_bytes_stay_the_same() -> None:
    """A process of another release may read them: change a format only compatibly."""
    assert {name: encode_command(one, now=0) for name, one in SENT.items()} == SENT_BYTES
    assert {name: encode_reply(one, NOWHERE) for name, one in RESULTS.items()} == RESULT_BYTES
    assert decode_command(EARLIER_BYTES, now=0) == decode_command(SENT_BYTES["create"], now=0)
