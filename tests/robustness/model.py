"""What one object may do: the state of an object as far as clients can know it, and what a request makes of it.

`follow` is the whole model: the states that may come of an operation in a state, given how it was answered;
none when no server that keeps its promises could have answered so. An operation without an answer may have
had any outcome.

What only an answer would have told is None until something shows it: the version of a create that was never
answered, or of the mark that a delete leaves while finalizers hold an object. `floor` is then the version it must
be above.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.robustness.history import Operation
from tests.robustness.objects import KINDS, Content, Document, content_of, is_deleting, version_of


@dataclass(frozen=True, slots=True)
class State:
    content: Content | None = None  # None: not there
    version: int | None = None
    uid: str | None = None
    deleting: bool = False
    floor: int = 0

    @property
    def there(self) -> bool:
        return self.content is not None

    @property
    def held(self) -> bool:
        return self.content is not None and bool(self.content.finalizers)

    def may_be(self, version: int) -> bool:
        return self.version == version if self.version is not None else version > self.floor

    def may_differ_from(self, version: int | None) -> bool:
        return version is not None and self.version != version


def seen(plural: str, shown: Document | None, floor: int = 0) -> State:
    """The state that a reading shows."""
    if shown is None:
        return State(floor=floor)
    version = version_of(shown)
    uid = shown["metadata"]["uid"]
    return State(content_of(plural, shown), version, uid, is_deleting(shown), version)


def agree(state: State, plural: str, shown: Document | None) -> Iterator[State]:
    """The state, better known after a reading; nothing when the reading shows another."""
    if shown is None:
        if not state.there:
            yield state
        return
    reading = seen(plural, shown)
    same = (reading.content, reading.deleting) == (state.content, state.deleting)
    if same and state.may_be(version_of(shown)) and state.uid in (None, reading.uid):
        yield reading


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


def _answered(operation: Operation, *statuses: int) -> bool:
    return operation.status is None or operation.status in statuses


def _created(state: State, operation: Operation) -> Iterator[State]:
    if state.there:
        if _answered(operation, 409):
            yield state
    elif _answered(operation, 201):
        yield from _stored(State(operation.content, floor=state.floor), operation)


def _stored(new: State, operation: Operation) -> Iterator[State]:
    """A state that a write led to, with what its answer tells of it."""
    if operation.status is None:
        yield new
    else:
        yield from agree(new, operation.key.plural, operation.answer)


def _replaced(state: State, operation: Operation) -> Iterator[State]:
    kind = KINDS[operation.key.plural]
    if not state.there:
        if kind.creates_on_update and _answered(operation, 201):
            yield from _stored(State(operation.content, floor=state.floor), operation)
        elif not kind.creates_on_update and _answered(operation, 404):
            yield state
    elif operation.expected is None and not kind.unconditional:
        if _answered(operation, 422):
            yield state
    else:
        if _answered(operation, 409) and state.may_differ_from(operation.expected):
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
        if _answered(operation, 422):
            yield state
    elif not _answered(operation, 200):
        return
    elif state.deleting and not new.finalizers:
        yield from _let_go(state, operation)
    elif new == old:
        yield from _stored(state, operation)
    else:
        floor = state.version if state.version is not None else state.floor
        yield from _stored(replace(state, content=new, version=None, floor=floor), operation)


def _let_go(state: State, operation: Operation) -> Iterator[State]:
    """The last finalizer of an object that waits for it: answered with what was written, at the old version."""
    for last in _stored(replace(state, content=operation.content), operation):
        yield _gone(last)


def _gone(state: State) -> State:
    return State(floor=state.version if state.version is not None else state.floor)


def _deleted(state: State, operation: Operation) -> Iterator[State]:
    if not state.there:
        if _answered(operation, 404):
            yield state
        return
    if _answered(operation, 409) and state.may_differ_from(operation.expected):
        yield state
    if operation.expected is not None and not state.may_be(operation.expected):
        return
    uid = operation.answer.get("details", {}).get("uid", state.uid)
    if _answered(operation, 200, 202) and state.uid in (None, uid):
        yield _after_delete(replace(_named(state, operation.expected), uid=uid))


def _after_delete(state: State) -> State:
    if not state.held:
        return _gone(state)
    if state.deleting:
        return state
    floor = state.version if state.version is not None else state.floor
    return replace(state, deleting=True, version=None, floor=floor)


def _collection_deleted(state: State, operation: Operation) -> Iterator[State]:
    """Somewhere in its time it found the object and deleted it, or the object was not there or not meant.

    What it means is decided before it deletes, so it may also delete what has another color by then.
    """
    if not state.there:
        yield state
        return
    yield _after_delete(state)
    assert state.content is not None
    if operation.status is None or state.content.color != operation.color:
        yield state
