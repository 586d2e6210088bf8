"""The model of one object: its state as far as clients can know it, and the effect of each request.

`follow` is the whole model: the states that may result from an operation in a state, given its response; none
when no correct server could have responded so. An operation without a response may have had any outcome.

A value that only a missing response would have shown is None until another response shows it: the version of a
create without a response, or of the deletionTimestamp that a delete sets while an object has finalizers. The
version must then be above `floor`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.robustness.history import Operation
from tests.robustness.objects import KINDS, Content, Document, content_of, is_deleting, version_of


@dataclass(frozen=True, slots=True)
class State:
    content: Content | None = None  # None: does not exist
    version: int | None = None
    uid: str | None = None
    deleting: bool = False
    floor: int = 0

    @property
    def exists(self) -> bool:
        return self.content is not None

    @property
    def held(self) -> bool:
        return self.content is not None and bool(self.content.finalizers)

    def may_be(self, version: int) -> bool:
        return self.version == version if self.version is not None else version > self.floor

    def may_differ_from(self, version: int | None) -> bool:
        return version is not None and self.version != version


def seen(plural: str, shown: Document | None, floor: int = 0) -> State:
    """The state that a read shows."""
    if shown is None:
        return State(floor=floor)
    version = version_of(shown)
    uid = shown["metadata"]["uid"]
    return State(content_of(plural, shown), version, uid, is_deleting(shown), version)


def agree(state: State, plural: str, shown: Document | None) -> Iterator[State]:
    """The state with what a read adds to it; nothing when the read shows another state."""
    if shown is None:
        if not state.exists:
            yield state
        return
    read = seen(plural, shown)
    same = (read.content, read.deleting) == (state.content, state.deleting)
    if same and state.may_be(version_of(shown)) and state.uid in (None, read.uid):
        yield read


def follow(state: State, operation: Operation) -> Iterator[State]:
    match operation.verb:
        case "create":
            return _created(state, operation)
        case "replace":
            return _replaced(state, operation)
        case "delete":
            return _deleted(state, operation)
        case "deletecollection":
            return _collection_deleted(state, operation)
        case "get":
            return agree(state, operation.key.plural, operation.shown)
        case _:
            raise ValueError(operation.verb)


def _responded(operation: Operation, *statuses: int) -> bool:
    return operation.status is None or operation.status in statuses


def _created(state: State, operation: Operation) -> Iterator[State]:
    if state.exists:
        if _responded(operation, 409):
            yield state
    elif _responded(operation, 201):
        yield from _stored(State(operation.content, floor=state.floor), operation)


def _stored(new: State, operation: Operation) -> Iterator[State]:
    """A state after a write, with what the response adds to it."""
    if operation.status is None:
        yield new
    else:
        yield from agree(new, operation.key.plural, operation.response)


def _replaced(state: State, operation: Operation) -> Iterator[State]:
    kind = KINDS[operation.key.plural]
    if not state.exists:
        if kind.creates_on_update and _responded(operation, 201):
            yield from _stored(State(operation.content, floor=state.floor), operation)
        elif not kind.creates_on_update and _responded(operation, 404):
            yield state
    elif operation.expected is None and not kind.unconditional:
        if _responded(operation, 422):
            yield state
    else:
        if _responded(operation, 409) and state.may_differ_from(operation.expected):
            yield state
        if operation.expected is None or state.may_be(operation.expected):
            yield from _changed(_named(state, operation.expected), operation)


def _named(state: State, version: int | None) -> State:
    """The state of a request whose precondition held."""
    return state if version is None else replace(state, version=version, floor=version)


def _changed(state: State, operation: Operation) -> Iterator[State]:
    old, new = state.content, operation.content
    assert old is not None and new is not None
    if state.deleting and not set(new.finalizers) <= set(old.finalizers):
        if _responded(operation, 422):
            yield state
    elif not _responded(operation, 200):
        return
    elif state.deleting and not new.finalizers:
        yield from _finalized(state, operation)
    elif new == old:
        yield from _stored(state, operation)
    else:
        floor = state.version if state.version is not None else state.floor
        yield from _stored(replace(state, content=new, version=None, floor=floor), operation)


def _finalized(state: State, operation: Operation) -> Iterator[State]:
    """Removing the last finalizer removes the object; the response has the new content at the old version."""
    for last in _stored(replace(state, content=operation.content), operation):
        yield _gone(last)


def _gone(state: State) -> State:
    return State(floor=state.version if state.version is not None else state.floor)


def _deleted(state: State, operation: Operation) -> Iterator[State]:
    if not state.exists:
        if _responded(operation, 404):
            yield state
        return
    if _responded(operation, 409) and state.may_differ_from(operation.expected):
        yield state
    if operation.expected is not None and not state.may_be(operation.expected):
        return
    uid = operation.response.get("details", {}).get("uid", state.uid)
    if _responded(operation, 200, 202) and state.uid in (None, uid):
        yield _after_delete(replace(_named(state, operation.expected), uid=uid))


def _after_delete(state: State) -> State:
    if not state.held:
        return _gone(state)
    if state.deleting:
        return state
    floor = state.version if state.version is not None else state.floor
    return replace(state, deleting=True, version=None, floor=floor)


def _collection_deleted(state: State, operation: Operation) -> Iterator[State]:
    """At some time it found the object and deleted it, or the object did not exist or did not match.

    It selects objects before it deletes them, so it may also delete one whose color has changed since.
    """
    if not state.exists:
        yield state
        return
    yield _after_delete(state)
    assert state.content is not None
    if operation.status is None or state.content.color != operation.color:
        yield state
