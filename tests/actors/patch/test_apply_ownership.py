"""The table of field ownership: taking over, conflicts, force, sharing and releasing."""

import pytest

from rewound.actors.errors import ApplyConflict
from rewound.actors.versions.features import ORDER_APPLIED
from tests.cases import cases

from .managed_object import THING, ManagedObject


def conflict(obj, manager, config, **more):
    before = obj.object
    with pytest.raises(ApplyConflict) as refused:
        obj.apply(manager, config, **more)
    assert obj.object is before
    return str(refused.value)


def test_update_takes_ownership():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"text": "a", "on": True}})
    obj.change("u1", text="b")
    assert obj.spec["text"] == "b"
    assert obj.owned("m1") == {"f:spec": {"f:on": {}}}
    assert obj.owned("u1") == {"f:spec": {"f:text": {}}}
    assert conflict(obj, "m1", {"spec": {"text": "a", "on": True}}).endswith(
        f'conflict with "u1" using {"example.com/v1"}: .spec.text'
    )


def test_other_value_conflicts_and_force_makes_sole_owner():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"text": "a", "map": {"x": "1"}}})
    assert conflict(obj, "m2", {"spec": {"text": "b"}}) == (
        'Apply failed with 1 conflict: conflict with "m1": .spec.text'
    )
    obj.apply("m2", {"spec": {"text": "b"}}, force=True)
    assert obj.spec["text"] == "b"
    assert obj.owned("m1") == {"f:spec": {"f:map": {"f:x": {}}}}
    assert obj.owned("m2") == {"f:spec": {"f:text": {}}}


def test_shared_value_cannot_be_changed_without_conflict():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"text": "a"}})
    assert not obj.apply("m2", {"spec": {"text": "a"}})
    assert obj.owned("m1") == obj.owned("m2") == {"f:spec": {"f:text": {}}}
    for manager, other in (("m1", "m2"), ("m2", "m1")):
        assert f'"{other}"' in conflict(obj, manager, {"spec": {"text": "b"}})


def test_shared_field_is_removed_with_its_last_owner():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"text": "a"}})
    obj.apply("m2", {"spec": {"text": "a"}})
    assert not obj.apply("m1", {})
    assert obj.managers == ["m2"]
    assert obj.apply("m2", {})
    assert "text" not in obj.spec
    assert obj.entries == []


def test_field_no_longer_applied_returns_to_its_default():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"kept": "other"}})
    obj.apply("m1", {"spec": {"text": "a"}})
    assert obj.spec == {"text": "a", "kept": "usual"}


def test_defaults_are_unowned_after_apply_and_owned_after_create():
    applied, made = ManagedObject(), ManagedObject()
    applied.apply("m1", {"spec": {"text": "a"}})
    made.update("u1", {"spec": {"text": "a"}})
    assert applied.owned("m1") == {"f:spec": {"f:text": {}}}
    assert made.owned("u1") == {"f:spec": {"f:kept": {}, "f:text": {}}}


def test_applier_restores_field_that_update_removed():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"map": {"a": "1", "b": "1"}}})
    obj.change("u1", map={"a": "1"})
    assert obj.owned("m1") == {"f:spec": {"f:map": {"f:a": {}}}}
    assert obj.owned("u1") is None
    obj.apply("m1", {"spec": {"map": {"a": "1", "b": "1"}}})
    assert obj.spec["map"] == {"a": "1", "b": "1"}


def test_keys_entries_and_elements_are_owned_one_by_one():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"map": {"a": "1"}, "set": ["a"], "boxes": [{"name": "a"}]}})
    obj.apply("m2", {"spec": {"map": {"b": "1"}, "set": ["b"], "boxes": [{"name": "b"}]}})
    assert obj.spec["set"] == ["a", "b"]
    obj.apply("m1", {"spec": {"text": "x"}})
    assert obj.spec["map"] == {"b": "1"}
    assert obj.spec["set"] == ["b"]
    assert obj.spec["boxes"] == [{"name": "b"}]


def test_atomic_values_are_owned_whole():
    obj = ManagedObject()
    parts = {"block": {"a": "1"}, "plain": ["a"], "pair": {"left": "a"}}
    obj.apply("m1", {"spec": parts})
    others = {"block": {"b": "1"}, "plain": ["b"], "pair": {"right": "b"}}
    for name, value in others.items():
        assert conflict(obj, "m2", {"spec": {name: value}}).endswith(f".spec.{name}")
    obj.apply("m2", {"spec": others}, force=True)
    assert {name: obj.spec[name] for name in parts} == others
    assert obj.managers == ["m2"]


def test_list_entry_no_longer_applied_is_removed_with_changes_of_others():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"boxes": [{"name": "a"}, {"name": "b"}]}})
    obj.change("u1", boxes=[{"name": "a", "note": "mine"}, {"name": "b"}])
    assert obj.owned("u1") == {"f:spec": {"f:boxes": {'k:{"name":"a"}': {"f:note": {}}}}}
    obj.apply("m1", {"spec": {"boxes": [{"name": "b"}]}})
    assert obj.spec["boxes"] == [{"name": "b"}]
    assert obj.managers == ["m1"]


def test_struct_is_removed_with_its_last_field():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"loose": {"left": "a", "right": "b"}}})
    obj.apply("m1", {"spec": {"loose": {"left": "a"}}})
    assert obj.spec["loose"] == {"left": "a"}
    obj.apply("m1", {"spec": {"text": "x"}})
    assert "loose" not in obj.spec


def test_one_error_lists_all_conflicts_by_manager():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"map": {"a": "1", "b": "1"}}})
    obj.apply("m2", {"spec": {"map": {"b": "1"}}})
    obj.change("u1", text="x")
    assert conflict(obj, "m3", {"spec": {"map": {"a": "2", "b": "2"}, "text": "y"}}) == (
        'Apply failed with 4 conflicts: conflicts with "m1":\n- .spec.map.a\n- .spec.map.b\n'
        'conflicts with "m2":\n- .spec.map.b\nconflicts with "u1" using example.com/v1:\n- .spec.text'
    )


def test_the_causes_name_every_field():
    obj = ManagedObject()
    obj.apply(
        "m1",
        {
            "spec": {
                "boxes": [{"name": "a", "ports": [{"port": 443, "name": "x"}, {"port": 53, "name": "y"}]}]
            }
        },
    )
    with pytest.raises(ApplyConflict) as refused:
        obj.apply(
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


def test_subresource_writes_have_a_separate_entry():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"text": "a"}, "status": {"phase": "dropped"}})
    obj.apply("m1", {"spec": {"text": "dropped"}, "status": {"phase": "Up"}}, through="status")
    assert obj.owned("m1") == {"f:spec": {"f:text": {}}}
    assert obj.owned("m1", subresource="status") == {"f:status": {"f:phase": {}}}
    assert obj.object["status"] == {"phase": "Up"}
    assert obj.spec["text"] == "a"
    assert conflict(obj, "m2", {"status": {"phase": "Down"}}, through="status").endswith(
        'conflict with "m1" with subresource "status": .status.phase'
    )


def test_first_apply_assigns_existing_fields_to_before_first_apply():
    obj = ManagedObject()
    obj.update("u1", {"spec": {"text": "a", "on": True}})
    obj.object["metadata"].pop("managedFields")
    obj.change("u1", text="b")
    assert obj.entries == []
    obj.apply("m1", {"spec": {"text": "b"}})
    assert obj.owned("before-first-apply") == {"f:spec": {"f:kept": {}, "f:on": {}, "f:text": {}}}
    assert '"before-first-apply" using' in conflict(obj, "m1", {"spec": {"text": "c"}})


def test_other_spelling_of_a_value_is_a_change():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"size": "1"}})
    assert ".spec.size" in conflict(obj, "m2", {"spec": {"size": "1000m"}})
    obj.apply("m2", {"spec": {"size": "1000m"}}, force=True)
    assert sorted(obj.managers) == ["m2"]


def test_null_and_empty_maps_are_owned_and_set_nothing():
    obj = ManagedObject()
    obj.apply("m1", {"metadata": {"labels": {}, "annotations": None}, "spec": {"map": {}, "text": None}})
    assert obj.owned("m1") == {
        "f:metadata": {"f:annotations": {}, "f:labels": {}},
        "f:spec": {"f:map": {}, "f:text": {}},
    }
    assert obj.spec == {"kept": "usual"}


@cases("config", [{}, {"metadata": {}}, {"metadata": None}, {"metadata": {"name": "a", "uid": "u"}}])
def test_system_metadata_has_no_owner(config):
    obj = ManagedObject()
    obj.apply("m1", config)
    assert obj.entries == []


def test_conflicts_are_listed_level_by_level():
    obj = ManagedObject()
    obj.update("u1", {"spec": {"map": {"a": "1"}, "text": "a", "loose": {"left": "a"}}})
    with pytest.raises(ApplyConflict) as refused:
        obj.apply("m1", {"spec": {"map": {"a": "2"}, "text": "b", "loose": {"left": "b"}}})
    assert [cause.field for cause in refused.value.causes] == [
        ".spec.text",
        ".spec.loose.left",
        ".spec.map.a",
    ]


def test_conflict_text_quotes_manager_names():
    obj = ManagedObject()
    obj.apply('a "b"', {"spec": {"text": "a"}})
    assert 'conflict with "a \\"b\\"": .spec.text' in conflict(obj, "m1", {"spec": {"text": "b"}})


def test_order_of_entries_is_a_change_in_later_versions():
    for features, order in (((), "abx"), ((ORDER_APPLIED,), "bxa")):
        obj = ManagedObject()
        obj.declare(THING, *features)
        obj.apply("m1", {"spec": {"boxes": [{"name": "a"}, {"name": "b"}]}})
        obj.apply("m2", {"spec": {"boxes": [{"name": "x"}]}})
        moved = obj.apply("m1", {"spec": {"boxes": [{"name": "b"}, {"name": "a"}]}})
        assert moved is bool(features)
        assert "".join(box["name"] for box in obj.spec["boxes"]) == order
        assert not obj.apply("m1", {"spec": {"boxes": [{"name": "b"}, {"name": "a"}]}})
