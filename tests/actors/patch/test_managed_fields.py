"""The entries of managedFields: order, times, number, and what clients may change."""

from rewound.actors.patch.managed_fields.managers import (
    MAX_UPDATERS,
    OLDEST,
    Entry,
    encode_entries,
    is_reset,
    read_entries,
    same_but_for_times,
)
from tests.cases import cases

from .managed_object import VERSION, ManagedObject

FIELDS = {"f:spec": {"f:text": {}}}


def entry(
    manager, operation="Update", time="2020-01-01T00:00:00Z", version=VERSION, fields=FIELDS, through=""
):
    return Entry(manager, operation, version, time, fields, through)


def test_appliers_come_first_then_by_time():
    entries = [
        entry("b", time="2020-01-03T00:00:00Z"),
        entry("a", time="2020-01-03T00:00:00Z"),
        entry("z", time="2020-01-01T00:00:00Z"),
        entry("x", "Apply", "2020-01-09T00:00:00Z"),
        entry("y", "Apply", "2020-01-08T00:00:00Z"),
    ]
    assert [one["manager"] for one in encode_entries(entries)] == ["y", "x", "z", "a", "b"]


def test_entry_members_are_in_order():
    assert list(encode_entries([entry("a", through="status")])[0].items()) == [
        ("manager", "a"),
        ("operation", "Update"),
        ("apiVersion", VERSION),
        ("time", "2020-01-01T00:00:00Z"),
        ("fieldsType", "FieldsV1"),
        ("fieldsV1", FIELDS),
        ("subresource", "status"),
    ]


def test_oldest_of_too_many_updaters_are_merged():
    obj = ManagedObject()
    for index in range(MAX_UPDATERS + 3):
        obj.change(f"u{index:02}", map={f"k{number}": "" for number in range(index + 1)})
    assert len(obj.entries) == MAX_UPDATERS
    assert obj.managers[0] == OLDEST
    assert obj.owned(OLDEST) == {
        "f:spec": {"f:kept": {}, "f:map": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}}
    }
    assert obj.managers[1:] == [f"u{index:02}" for index in range(4, MAX_UPDATERS + 3)]


def test_appliers_are_never_merged():
    obj = ManagedObject()
    for index in range(MAX_UPDATERS + 3):
        obj.apply(f"m{index}", {"spec": {"map": {f"k{index}": ""}}})
    assert len(obj.entries) == MAX_UPDATERS + 3


def test_one_name_has_an_entry_for_each_operation():
    obj = ManagedObject()
    obj.apply("me", {"spec": {"text": "a"}})
    obj.change("me", on=True)
    assert [(one["manager"], one["operation"]) for one in obj.entries] == [("me", "Apply"), ("me", "Update")]


def test_only_a_change_updates_the_time_of_an_entry():
    obj = ManagedObject()
    obj.update("u1", {"spec": {"text": "a", "on": True}})
    first = obj.entries[0]["time"]
    obj.change("u1")
    assert obj.entries[0]["time"] == first
    obj.change("u2", on=None)
    assert obj.entries[0]["time"] == first
    assert obj.managers == ["u1"]
    obj.change("u1", text="b")
    assert obj.entries[0]["time"] > first


def test_apply_updates_its_time_when_it_changes_the_object():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"text": "a"}})
    times = [obj.entries[0]["time"]]
    for config in ({"text": "a"}, {"text": "b"}, {"text": "b", "kept": "usual"}):
        obj.apply("m1", {"spec": config})
        times.append(obj.entries[0]["time"])
    assert times[0] == times[1] < times[2] == times[3]


def test_applier_that_only_shares_has_no_time_and_comes_first():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"text": "a"}})
    obj.apply("m2", {"spec": {"text": "a"}})
    assert obj.managers == ["m2", "m1"]
    assert "time" not in obj.entries[0]
    obj.apply("m2", {"spec": {"text": "a", "on": True}})
    assert obj.entries[1]["manager"] == "m2"
    assert obj.entries[1]["time"] > obj.entries[0]["time"]


@cases(("sent", "resets"), [([{}], True), ([], False), ([{}, {}], False), ([{"manager": "a"}], False)])
def test_one_empty_entry_resets(sent, resets):
    assert is_reset(sent) is resets


def rewrite(obj, manager, managed, **parts):
    """A replace that sets the owners."""
    wanted = {"metadata": {"managedFields": managed}, "spec": {**obj.spec, **parts}}
    obj.update(manager, wanted)


def test_after_a_reset_the_updater_owns_what_it_changed():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"text": "a"}})
    rewrite(obj, "u1", [{}], on=True)
    assert [(one["manager"], one["fieldsV1"]) for one in obj.entries] == [("u1", {"f:spec": {"f:on": {}}})]


def test_a_reset_alone_leaves_no_owners_and_updates_make_none():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"text": "a"}})
    rewrite(obj, "u1", [{}])
    obj.change("u1", text="b")
    assert obj.entries == []


@cases(
    "managed",
    [
        None,
        [],
        [{"manager": "x", "operation": "Delete", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}],
        [{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV2", "fieldsV1": {}}],
        [{"manager": "x", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {}}],
        [{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"k:": {}}}],
        [{"manager": "x" * 129, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}],
    ],
)  # fmt: skip
def test_invalid_sent_entries_are_ignored(managed):
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"text": "a", "on": True}})
    rewrite(obj, "u1", managed, text="b")
    assert obj.owned("m1") == {"f:spec": {"f:on": {}}}
    assert obj.owned("u1") == {"f:spec": {"f:text": {}}}


def test_an_update_may_take_an_entry_out():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"text": "a"}})
    obj.apply("m2", {"spec": {"on": True}})
    rewrite(obj, "u1", [obj.entries[0]])
    assert obj.managers == ["m1"]
    obj.apply("m3", {"spec": {"on": False}})


def test_subresource_writes_cannot_edit_entries():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"text": "a"}})
    obj.update("u1", {"metadata": {"managedFields": [{}]}, "spec": obj.spec}, through="status")
    assert obj.managers == ["m1"]


def test_entries_of_one_owner_sent_twice_are_one():
    one = {"manager": "a", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}
    found = read_entries([{**one, "apiVersion": "v1"}, {**one, "apiVersion": "v2"}])
    assert [entry.version for entry in found] == ["v2"]


def test_entry_without_fields_replaces_all_and_is_dropped():
    obj = ManagedObject()
    obj.apply("m1", {"spec": {"text": "a", "on": True}})
    nothing = {"manager": "x", "operation": "Update", "apiVersion": VERSION, "fieldsType": "FieldsV1"}
    rewrite(obj, "u1", [nothing], text="b")
    assert obj.managers == ["u1"]
    assert obj.owned("u1") == {"f:spec": {"f:text": {}}}


def test_same_but_for_times_ignores_times():
    early, late = entry("a"), entry("a", time="2021-01-01T00:00:00Z")
    other = entry("b", fields={"f:x": {}})
    assert same_but_for_times(encode_entries([early, other]), encode_entries([other, late]))
    assert not same_but_for_times(encode_entries([early]), encode_entries([other]))
    assert not same_but_for_times(encode_entries([early]), encode_entries([early, other]))
    assert not same_but_for_times(
        encode_entries([early]), encode_entries([early._replace(fields={"f:x": {}})])
    )


@cases(
    "spec",
    [
        {"set": ["a", "a"]},
        {"boxes": [{"name": "a"}, {"name": "a", "note": "x"}]},
        {"boxes": [{"name": "a", "ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}]},
    ],
)
def test_entries_with_equal_keys_clear_managed_fields(spec):
    made = ManagedObject()
    made.update("u1", {"spec": spec})
    assert made.entries == []
    changed = ManagedObject()
    changed.apply("m1", {"spec": {"text": "a"}})
    changed.change("u1", **spec)
    assert changed.entries == []
    changed.change("u1", text="b")
    assert changed.entries == []


def test_apply_after_cleared_managed_fields_creates_them():
    obj = ManagedObject()
    obj.update("u1", {"spec": {"text": "a", "set": ["a", "a"]}})
    obj.apply("m1", {"spec": {"text": "a"}})
    assert sorted(obj.managers) == ["before-first-apply", "m1"]
