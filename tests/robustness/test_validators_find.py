"""Each validator finds a history that breaks its guarantee, and lets one pass that keeps it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.robustness.histories import Writer, content, entry, key, shown
from tests.robustness.history import CREATE, DELETE, REPLACE
from tests.robustness.promise import Broken
from tests.robustness.validate import VALIDATORS

Case = tuple[str, Callable[[Writer], object]]


# Broken promises.


def acknowledged_create_is_lost(told: Writer) -> None:
    told.life()
    told.create(5)
    told.life(found={}, found_at=5)


def acknowledged_update_is_lost(told: Writer) -> None:
    told.life()
    old = told.create(5)
    told.replace(6)
    told.life(found={key(): old.answer}, found_at=6)


def acknowledged_delete_is_undone(told: Writer) -> None:
    told.life()
    made = told.create(5)
    told.delete()
    told.life(found={key(): made.answer}, found_at=6)


def deleted_object_is_gone_in_spite_of_its_finalizer(told: Writer) -> None:
    told.life()
    told.create(5, finalizers=("robustness/one",))
    told.delete()
    told.life(found={}, found_at=6)


def unanswered_write_cannot_undo_a_later_one(told: Writer) -> None:
    told.life()
    made = told.create(5)
    told.unanswered(DELETE, sent=0.1)
    told.replace(6)
    told.life(found={key(): made.answer}, found_at=6)


def stopped_server_did_what_it_never_answered(told: Writer) -> None:
    told.life().orderly = True
    told.unanswered(CREATE)
    told.life(found={key(): shown(content(1), 5)}, found_at=5)


def two_creates_succeed(told: Writer) -> None:
    told.life()
    told.create(5)
    told.create(6)


def stale_update_succeeds(told: Writer) -> None:
    told.life()
    told.create(5)
    told.replace(6)
    told.replace(7, expected=5)


def conflict_without_a_reason(told: Writer) -> None:
    told.life()
    told.create(5)
    told.request(REPLACE, content=content(2), expected=5, status=409)


def read_shows_what_nobody_wrote_yet(told: Writer) -> None:
    told.life()
    told.get(shown(content(2), 5))
    told.create(5)


def version_goes_back_after_a_restart(told: Writer) -> None:
    told.life()
    told.create(5)
    told.life(found_at=5)
    told.create(5, name="r1")


def version_of_a_list_is_given_again(told: Writer) -> None:
    told.life()
    told.listed((9, []))
    told.create(9)


def list_goes_back(told: Writer) -> None:
    told.life()
    told.listed((9, []))
    told.listed((8, []))


def one_version_for_two_objects(told: Writer) -> None:
    told.life()
    told.create(5)
    told.create(5, name="r1")


def one_version_with_two_contents(told: Writer) -> None:
    told.life()
    told.create(5)
    told.get(shown(content(9), 5))


def torn_object(told: Writer) -> None:
    told.life()
    body = shown(content(1), 5)
    body["data"]["token"] = "2-10"
    told.get(body)


def request_that_was_cut_off_is_there(told: Writer) -> None:
    told.life()
    told.unanswered(CREATE, complete=False)
    told.get(shown(content(1), 5))


def list_misses_an_object(told: Writer) -> None:
    told.life()
    made = told.create(5)
    told.listed((5, []))
    told.log(entry(made.answer))


def list_shows_a_later_state(told: Writer) -> None:
    told.life()
    first, second = told.create(5), told.replace(6)
    told.listed((5, [second.answer]), version=5, match="Exact")
    told.log(entry(first.answer), entry(second.answer))


def pages_of_two_versions(told: Writer) -> None:
    told.life()
    told.listed((5, []), (6, []))


def list_is_older_than_an_acknowledged_write(told: Writer) -> None:
    told.life()
    told.create(5)
    told.listed((4, []))


def list_is_older_than_the_version_it_names(told: Writer) -> None:
    told.life()
    told.listed((4, []), version=5, match="NotOlderThan")


def get_is_older_than_an_acknowledged_write(told: Writer) -> None:
    told.life()
    old = told.create(5)
    told.replace(6)
    told.get(old.answer)


def journal_does_not_verify(told: Writer) -> None:
    told.life()
    told.log(differences=("the state of r0 is missing",))


def stored_state_is_not_the_fold(told: Writer) -> None:
    told.life()
    told.log(entry(told.create(5).answer), rows={})


def acknowledged_version_is_no_event(told: Writer) -> None:
    told.life()
    told.create(5)
    told.log()


def event_has_another_content_than_the_answer(told: Writer) -> None:
    told.life()
    told.create(5)
    told.log(entry(shown(content(1), 5, uid="other")))


def restart_serves_another_state_than_was_stored(told: Writer) -> None:
    told.life()
    told.log(entry(told.create(5).answer))
    told.life(found={}, found_at=5)


BROKEN: list[Case] = [
    ("Durable", acknowledged_create_is_lost),
    ("Durable", acknowledged_update_is_lost),
    ("Durable", acknowledged_delete_is_undone),
    ("Durable", deleted_object_is_gone_in_spite_of_its_finalizer),
    ("Durable", unanswered_write_cannot_undo_a_later_one),
    ("Orderly", stopped_server_did_what_it_never_answered),
    ("Linear", two_creates_succeed),
    ("Linear", stale_update_succeeds),
    ("Linear", conflict_without_a_reason),
    ("Linear", read_shows_what_nobody_wrote_yet),
    ("Monotonic", version_goes_back_after_a_restart),
    ("Monotonic", version_of_a_list_is_given_again),
    ("Monotonic", list_goes_back),
    ("Unique", one_version_for_two_objects),
    ("Unique", one_version_with_two_contents),
    ("Atomic", torn_object),
    ("Atomic", request_that_was_cut_off_is_there),
    ("Atomic", list_misses_an_object),
    ("Atomic", list_shows_a_later_state),
    ("Atomic", pages_of_two_versions),
    ("Recent", list_is_older_than_an_acknowledged_write),
    ("Recent", list_is_older_than_the_version_it_names),
    ("Recent", get_is_older_than_an_acknowledged_write),
    ("Exact", journal_does_not_verify),
    ("Exact", stored_state_is_not_the_fold),
    ("Exact", acknowledged_version_is_no_event),
    ("Exact", event_has_another_content_than_the_answer),
    ("Exact", restart_serves_another_state_than_was_stored),
]


def named(cases: list[Case]) -> list[object]:
    return [pytest.param(*case, id=case[1].__name__) for case in cases]


@pytest.mark.parametrize(("name", "write"), named(BROKEN))
def test_found(name: str, write: Callable[[Writer], object]) -> None:
    told = Writer()
    write(told)
    with pytest.raises(Broken) as broken:
        VALIDATORS[name](told.history)
    assert broken.value.name == name


# Kept promises.


def unanswered_create_is_there(told: Writer) -> None:
    told.life()
    told.unanswered(CREATE)
    told.life(found={key(): shown(content(1), 5)}, found_at=5)


def unanswered_create_is_not_there(told: Writer) -> None:
    told.life()
    told.unanswered(CREATE)
    told.life(found={}, found_at=5)


def stopped_server_did_what_its_client_did_not_wait_for(told: Writer) -> None:
    told.life().orderly = True
    told.unanswered(CREATE, abandoned=True)
    told.life(found={key(): shown(content(1), 5)}, found_at=5)


def unanswered_delete_explains_a_second_create(told: Writer) -> None:
    told.life()
    told.create(5)
    told.unanswered(DELETE)
    told.create(7, uid="u2")


def concurrent_writes_in_the_order_of_their_versions(told: Writer) -> None:
    told.life()
    told.create(5)
    told.replace(7, sent=2.0, ended=4.0)
    winner = told.replace(6, sent=2.1, ended=3.0)
    told.get(winner.answer, sent=2.2, ended=3.5)


def finalizer_holds_a_deleted_object(told: Writer) -> None:
    told.life()
    held = content(1, ("robustness/one",))
    told.create(5, finalizers=held.finalizers)
    told.delete()
    told.get(shown(held, 6, deleting=True))
    told.life(found={key(): shown(held, 6, deleting=True)}, found_at=6)


KEPT: list[Case] = [
    ("Durable", unanswered_create_is_there),
    ("Durable", unanswered_create_is_not_there),
    ("Orderly", stopped_server_did_what_its_client_did_not_wait_for),
    ("Linear", unanswered_delete_explains_a_second_create),
    ("Linear", concurrent_writes_in_the_order_of_their_versions),
    ("Durable", finalizer_holds_a_deleted_object),
]


@pytest.mark.parametrize(("name", "write"), named(KEPT))
def test_passed(name: str, write: Callable[[Writer], object]) -> None:
    told = Writer()
    write(told)
    VALIDATORS[name](told.history)
