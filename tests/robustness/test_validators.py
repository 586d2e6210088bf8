"""Each validator finds a history that breaks its guarantee, and accepts one that keeps it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.robustness.guarantees import GuaranteeBroken
from tests.robustness.handwritten_history import Writer, content, entry, key, shown
from tests.robustness.history import CREATE, DELETE, REPLACE
from tests.robustness.validate import VALIDATORS

Case = tuple[str, Callable[[Writer], object]]


# Histories that break a guarantee.


def acknowledged_create_is_lost(writer: Writer) -> None:
    writer.run()
    writer.create(5)
    writer.run(found={}, found_at=5)


def acknowledged_update_is_lost(writer: Writer) -> None:
    writer.run()
    old = writer.create(5)
    writer.replace(6)
    writer.run(found={key(): old.response}, found_at=6)


def acknowledged_delete_is_undone(writer: Writer) -> None:
    writer.run()
    made = writer.create(5)
    writer.delete()
    writer.run(found={key(): made.response}, found_at=6)


def deleted_object_is_removed_despite_its_finalizer(writer: Writer) -> None:
    writer.run()
    writer.create(5, finalizers=("robustness/one",))
    writer.delete()
    writer.run(found={}, found_at=6)


def write_without_response_undoes_a_later_one(writer: Writer) -> None:
    writer.run()
    made = writer.create(5)
    writer.without_response(DELETE, sent=0.1)
    writer.replace(6)
    writer.run(found={key(): made.response}, found_at=6)


def stopped_server_applied_a_write_without_response(writer: Writer) -> None:
    writer.run().orderly = True
    writer.without_response(CREATE)
    writer.run(found={key(): shown(content(1), 5)}, found_at=5)


def two_creates_succeed(writer: Writer) -> None:
    writer.run()
    writer.create(5)
    writer.create(6)


def stale_update_succeeds(writer: Writer) -> None:
    writer.run()
    writer.create(5)
    writer.replace(6)
    writer.replace(7, expected=5)


def conflict_although_version_matches(writer: Writer) -> None:
    writer.run()
    writer.create(5)
    writer.request(REPLACE, content=content(2), expected=5, status=409)


def read_shows_a_write_before_it_was_sent(writer: Writer) -> None:
    writer.run()
    writer.get(shown(content(2), 5))
    writer.create(5)


def version_goes_back_after_a_restart(writer: Writer) -> None:
    writer.run()
    writer.create(5)
    writer.run(found_at=5)
    writer.create(5, name="r1")


def write_gets_the_version_of_an_earlier_list(writer: Writer) -> None:
    writer.run()
    writer.listed((9, []))
    writer.create(9)


def list_goes_back(writer: Writer) -> None:
    writer.run()
    writer.listed((9, []))
    writer.listed((8, []))


def one_version_for_two_objects(writer: Writer) -> None:
    writer.run()
    writer.create(5)
    writer.create(5, name="r1")


def one_version_with_two_contents(writer: Writer) -> None:
    writer.run()
    writer.create(5)
    writer.get(shown(content(9), 5))


def torn_object(writer: Writer) -> None:
    writer.run()
    body = shown(content(1), 5)
    body["data"]["token"] = "2-10"
    writer.get(body)


def partly_sent_request_took_effect(writer: Writer) -> None:
    writer.run()
    writer.without_response(CREATE, complete=False)
    writer.get(shown(content(1), 5))


def list_misses_an_object(writer: Writer) -> None:
    writer.run()
    made = writer.create(5)
    writer.listed((5, []))
    writer.log(entry(made.response))


def list_shows_a_later_state(writer: Writer) -> None:
    writer.run()
    first, second = writer.create(5), writer.replace(6)
    writer.listed((5, [second.response]), version=5, match="Exact")
    writer.log(entry(first.response), entry(second.response))


def pages_of_two_versions(writer: Writer) -> None:
    writer.run()
    writer.listed((5, []), (6, []))


def list_is_older_than_an_acknowledged_write(writer: Writer) -> None:
    writer.run()
    writer.create(5)
    writer.listed((4, []))


def list_is_older_than_the_version_it_names(writer: Writer) -> None:
    writer.run()
    writer.listed((4, []), version=5, match="NotOlderThan")


def get_is_older_than_an_acknowledged_write(writer: Writer) -> None:
    writer.run()
    old = writer.create(5)
    writer.replace(6)
    writer.get(old.response)


def journal_does_not_verify(writer: Writer) -> None:
    writer.run()
    writer.log(differences=("the state of r0 is missing",))


def stored_state_differs_from_replay(writer: Writer) -> None:
    writer.run()
    writer.log(entry(writer.create(5).response), rows={})


def acknowledged_version_has_no_event(writer: Writer) -> None:
    writer.run()
    writer.create(5)
    writer.log()


def event_differs_from_response(writer: Writer) -> None:
    writer.run()
    writer.create(5)
    writer.log(entry(shown(content(1), 5, uid="other")))


def restart_serves_another_state_than_was_stored(writer: Writer) -> None:
    writer.run()
    writer.log(entry(writer.create(5).response))
    writer.run(found={}, found_at=5)


BROKEN: list[Case] = [
    ("Durable", acknowledged_create_is_lost),
    ("Durable", acknowledged_update_is_lost),
    ("Durable", acknowledged_delete_is_undone),
    ("Durable", deleted_object_is_removed_despite_its_finalizer),
    ("Durable", write_without_response_undoes_a_later_one),
    ("Orderly", stopped_server_applied_a_write_without_response),
    ("Linear", two_creates_succeed),
    ("Linear", stale_update_succeeds),
    ("Linear", conflict_although_version_matches),
    ("Linear", read_shows_a_write_before_it_was_sent),
    ("Monotonic", version_goes_back_after_a_restart),
    ("Monotonic", write_gets_the_version_of_an_earlier_list),
    ("Monotonic", list_goes_back),
    ("Unique", one_version_for_two_objects),
    ("Unique", one_version_with_two_contents),
    ("Atomic", torn_object),
    ("Atomic", partly_sent_request_took_effect),
    ("Atomic", list_misses_an_object),
    ("Atomic", list_shows_a_later_state),
    ("Atomic", pages_of_two_versions),
    ("Recent", list_is_older_than_an_acknowledged_write),
    ("Recent", list_is_older_than_the_version_it_names),
    ("Recent", get_is_older_than_an_acknowledged_write),
    ("Exact", journal_does_not_verify),
    ("Exact", stored_state_differs_from_replay),
    ("Exact", acknowledged_version_has_no_event),
    ("Exact", event_differs_from_response),
    ("Exact", restart_serves_another_state_than_was_stored),
]


def named(cases: list[Case]) -> list[object]:
    return [pytest.param(*case, id=case[1].__name__) for case in cases]


@pytest.mark.parametrize(("name", "write"), named(BROKEN))
def test_validator_finds_broken_guarantee(name: str, write: Callable[[Writer], object]) -> None:
    writer = Writer()
    write(writer)
    with pytest.raises(GuaranteeBroken) as broken:
        VALIDATORS[name](writer.history)
    assert broken.value.name == name


# Histories that keep it.


def create_without_response_took_effect(writer: Writer) -> None:
    writer.run()
    writer.without_response(CREATE)
    writer.run(found={key(): shown(content(1), 5)}, found_at=5)


def create_without_response_did_not_take_effect(writer: Writer) -> None:
    writer.run()
    writer.without_response(CREATE)
    writer.run(found={}, found_at=5)


def stopped_server_applied_a_write_whose_client_disconnected(writer: Writer) -> None:
    writer.run().orderly = True
    writer.without_response(CREATE, abandoned=True)
    writer.run(found={key(): shown(content(1), 5)}, found_at=5)


def delete_without_response_explains_a_second_create(writer: Writer) -> None:
    writer.run()
    writer.create(5)
    writer.without_response(DELETE)
    writer.create(7, uid="u2")


def concurrent_writes_in_the_order_of_their_versions(writer: Writer) -> None:
    writer.run()
    writer.create(5)
    writer.replace(7, sent=2.0, ended=4.0)
    winner = writer.replace(6, sent=2.1, ended=3.0)
    writer.get(winner.response, sent=2.2, ended=3.5)


def finalizer_keeps_a_deleted_object(writer: Writer) -> None:
    writer.run()
    held = content(1, ("robustness/one",))
    writer.create(5, finalizers=held.finalizers)
    writer.delete()
    writer.get(shown(held, 6, deleting=True))
    writer.run(found={key(): shown(held, 6, deleting=True)}, found_at=6)


KEPT: list[Case] = [
    ("Durable", create_without_response_took_effect),
    ("Durable", create_without_response_did_not_take_effect),
    ("Orderly", stopped_server_applied_a_write_whose_client_disconnected),
    ("Linear", delete_without_response_explains_a_second_create),
    ("Linear", concurrent_writes_in_the_order_of_their_versions),
    ("Durable", finalizer_keeps_a_deleted_object),
]


@pytest.mark.parametrize(("name", "write"), named(KEPT))
def test_validator_accepts_kept_guarantee(name: str, write: Callable[[Writer], object]) -> None:
    writer = Writer()
    write(writer)
    VALIDATORS[name](writer.history)
