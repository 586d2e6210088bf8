"""The table of field ownership: taking over, conflicts, force, sharing, giving up."""

import pytest

from actors.errors import ApplyConflict

from .books import Book


def conflict(book, manager, config, **more):
    before = book.object
    with pytest.raises(ApplyConflict) as refused:
        book.apply(manager, config, **more)
    assert book.object is before
    return str(refused.value)


def test_an_update_takes_over():
    book = Book()
    book.apply("m1", {"spec": {"text": "a", "on": True}})
    book.change("u1", text="b")
    assert book.spec["text"] == "b"
    assert book.owned("m1") == {"f:spec": {"f:on": {}}}
    assert book.owned("u1") == {"f:spec": {"f:text": {}}}
    assert conflict(book, "m1", {"spec": {"text": "a", "on": True}}).endswith(
        f'conflict with "u1" using {"example.com/v1"}: .spec.text'
    )


def test_another_value_is_a_conflict_and_with_force_the_sole_owners():
    book = Book()
    book.apply("m1", {"spec": {"text": "a", "map": {"x": "1"}}})
    assert conflict(book, "m2", {"spec": {"text": "b"}}) == (
        'Apply failed with 1 conflict: conflict with "m1": .spec.text'
    )
    book.apply("m2", {"spec": {"text": "b"}}, force=True)
    assert book.spec["text"] == "b"
    assert book.owned("m1") == {"f:spec": {"f:map": {"f:x": {}}}}
    assert book.owned("m2") == {"f:spec": {"f:text": {}}}


def test_the_same_value_is_shared_and_changed_by_none_of_its_owners():
    book = Book()
    book.apply("m1", {"spec": {"text": "a"}})
    assert not book.apply("m2", {"spec": {"text": "a"}})
    assert book.owned("m1") == book.owned("m2") == {"f:spec": {"f:text": {}}}
    for manager, other in (("m1", "m2"), ("m2", "m1")):
        assert f'"{other}"' in conflict(book, manager, {"spec": {"text": "b"}})


def test_a_shared_field_goes_with_its_last_owner():
    book = Book()
    book.apply("m1", {"spec": {"text": "a"}})
    book.apply("m2", {"spec": {"text": "a"}})
    assert not book.apply("m1", {})
    assert book.managers == ["m2"]
    assert book.apply("m2", {})
    assert "text" not in book.spec
    assert book.entries == []


def test_a_field_given_up_goes_back_to_its_default():
    book = Book()
    book.apply("m1", {"spec": {"kept": "other"}})
    book.apply("m1", {"spec": {"text": "a"}})
    assert book.spec == {"text": "a", "kept": "usual"}


def test_defaults_are_nobodys_after_an_apply_and_their_creators_after_a_create():
    applied, made = Book(), Book()
    applied.apply("m1", {"spec": {"text": "a"}})
    made.update("u1", {"spec": {"text": "a"}})
    assert applied.owned("m1") == {"f:spec": {"f:text": {}}}
    assert made.owned("u1") == {"f:spec": {"f:kept": {}, "f:text": {}}}


def test_an_update_removes_what_an_applier_may_bring_back():
    book = Book()
    book.apply("m1", {"spec": {"map": {"a": "1", "b": "1"}}})
    book.change("u1", map={"a": "1"})
    assert book.owned("m1") == {"f:spec": {"f:map": {"f:a": {}}}}
    assert book.owned("u1") is None
    book.apply("m1", {"spec": {"map": {"a": "1", "b": "1"}}})
    assert book.spec["map"] == {"a": "1", "b": "1"}


def test_keys_entries_and_elements_are_owned_one_by_one():
    book = Book()
    book.apply("m1", {"spec": {"map": {"a": "1"}, "set": ["a"], "boxes": [{"name": "a"}]}})
    book.apply("m2", {"spec": {"map": {"b": "1"}, "set": ["b"], "boxes": [{"name": "b"}]}})
    assert book.spec["set"] == ["a", "b"]
    book.apply("m1", {"spec": {"text": "x"}})
    assert book.spec["map"] == {"b": "1"}
    assert book.spec["set"] == ["b"]
    assert book.spec["boxes"] == [{"name": "b"}]


def test_atomic_values_are_owned_whole():
    book = Book()
    parts = {"block": {"a": "1"}, "plain": ["a"], "pair": {"left": "a"}}
    book.apply("m1", {"spec": parts})
    others = {"block": {"b": "1"}, "plain": ["b"], "pair": {"right": "b"}}
    for name, value in others.items():
        assert conflict(book, "m2", {"spec": {name: value}}).endswith(f".spec.{name}")
    book.apply("m2", {"spec": others}, force=True)
    assert {name: book.spec[name] for name in parts} == others
    assert book.managers == ["m2"]


def test_an_entry_given_up_goes_whole_with_what_others_changed_in_it():
    book = Book()
    book.apply("m1", {"spec": {"boxes": [{"name": "a"}, {"name": "b"}]}})
    book.change("u1", boxes=[{"name": "a", "note": "mine"}, {"name": "b"}])
    assert book.owned("u1") == {"f:spec": {"f:boxes": {'k:{"name":"a"}': {"f:note": {}}}}}
    book.apply("m1", {"spec": {"boxes": [{"name": "b"}]}})
    assert book.spec["boxes"] == [{"name": "b"}]
    assert book.managers == ["m1"]


def test_a_struct_goes_with_its_last_member():
    book = Book()
    book.apply("m1", {"spec": {"loose": {"left": "a", "right": "b"}}})
    book.apply("m1", {"spec": {"loose": {"left": "a"}}})
    assert book.spec["loose"] == {"left": "a"}
    book.apply("m1", {"spec": {"text": "x"}})
    assert "loose" not in book.spec


def test_all_conflicts_are_told_at_once_by_owner():
    book = Book()
    book.apply("m1", {"spec": {"map": {"a": "1", "b": "1"}}})
    book.apply("m2", {"spec": {"map": {"b": "1"}}})
    book.change("u1", text="x")
    assert conflict(book, "m3", {"spec": {"map": {"a": "2", "b": "2"}, "text": "y"}}) == (
        'Apply failed with 4 conflicts: conflicts with "m1":\n- .spec.map.a\n- .spec.map.b\n'
        'conflicts with "m2":\n- .spec.map.b\nconflicts with "u1" using example.com/v1:\n- .spec.text'
    )


def test_the_causes_name_every_field():
    book = Book()
    book.apply(
        "m1",
        {
            "spec": {
                "boxes": [{"name": "a", "ports": [{"port": 443, "name": "x"}, {"port": 53, "name": "y"}]}]
            }
        },
    )
    with pytest.raises(ApplyConflict) as refused:
        book.apply(
            "m2",
            {
                "spec": {
                    "boxes": [{"name": "a", "ports": [{"port": 443, "name": "z"}, {"port": 53, "name": "z"}]}]
                }
            },
        )
    assert [cause.field for cause in refused.value.causes] == [
        '.spec.boxes[name="a"].ports[port=53,protocol="TCP"].name',
        '.spec.boxes[name="a"].ports[port=443,protocol="TCP"].name',
    ]


def test_through_a_subresource_one_has_an_entry_of_its_own():
    book = Book()
    book.apply("m1", {"spec": {"text": "a"}, "status": {"phase": "dropped"}})
    book.apply("m1", {"spec": {"text": "dropped"}, "status": {"phase": "Up"}}, through="status")
    assert book.owned("m1") == {"f:spec": {"f:text": {}}}
    assert book.owned("m1", subresource="status") == {"f:status": {"f:phase": {}}}
    assert book.object["status"] == {"phase": "Up"}
    assert book.spec["text"] == "a"
    assert conflict(book, "m2", {"status": {"phase": "Down"}}, through="status").endswith(
        'conflict with "m1" with subresource "status": .status.phase'
    )


def test_the_first_apply_finds_what_was_there_in_the_hands_of_the_past():
    book = Book()
    book.update("u1", {"spec": {"text": "a", "on": True}})
    book.object["metadata"].pop("managedFields")
    book.change("u1", text="b")
    assert book.entries == []
    book.apply("m1", {"spec": {"text": "b"}})
    assert book.owned("before-first-apply") == {"f:spec": {"f:kept": {}, "f:on": {}, "f:text": {}}}
    assert '"before-first-apply" using' in conflict(book, "m1", {"spec": {"text": "c"}})


def test_another_spelling_is_another_value():
    book = Book()
    book.apply("m1", {"spec": {"size": "1"}})
    assert ".spec.size" in conflict(book, "m2", {"spec": {"size": "1000m"}})
    book.apply("m2", {"spec": {"size": "1000m"}}, force=True)
    assert sorted(book.managers) == ["m2"]


def test_null_and_empty_claim_and_set_nothing():
    book = Book()
    book.apply("m1", {"metadata": {"labels": {}, "annotations": None}, "spec": {"map": {}, "text": None}})
    assert book.owned("m1") == {
        "f:metadata": {"f:annotations": {}, "f:labels": {}},
        "f:spec": {"f:map": {}, "f:text": {}},
    }
    assert book.spec == {"kept": "usual"}


@pytest.mark.parametrize(
    "config", [{}, {"metadata": {}}, {"metadata": None}, {"metadata": {"name": "a", "uid": "u"}}]
)
def test_names_and_the_like_are_nobodys(config):
    book = Book()
    book.apply("m1", config)
    assert book.entries == []


def test_conflicts_are_told_level_by_level():
    book = Book()
    book.update("u1", {"spec": {"map": {"a": "1"}, "text": "a", "loose": {"left": "a"}}})
    with pytest.raises(ApplyConflict) as refused:
        book.apply("m1", {"spec": {"map": {"a": "2"}, "text": "b", "loose": {"left": "b"}}})
    assert [cause.field for cause in refused.value.causes] == [
        ".spec.text",
        ".spec.loose.left",
        ".spec.map.a",
    ]


def test_owners_are_quoted_where_they_are_told_of():
    book = Book()
    book.apply('a "b"', {"spec": {"text": "a"}})
    assert 'conflict with "a \\"b\\"": .spec.text' in conflict(book, "m1", {"spec": {"text": "b"}})
