"""Owners that wrote in different API versions of one object: core events, and the same with newer field names."""

import pytest

from rewound.actors.errors import ApplyConflict
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import CLUSTER
from rewound.actors.patch.managed_fields.apply import Applier, apply
from rewound.actors.patch.managed_fields.field_view import FieldViews
from rewound.actors.patch.managed_fields.ownership import owned_after
from rewound.actors.runtime.coroutines import without_waiting

CATALOG = built_in(CLUSTER)
CORE = CATALOG.find("", "v1", "events")
NEW = CATALOG.find(CLUSTER.group("events"), "v1", "events")
OLD_VERSION, NEW_VERSION = CORE.api_version, NEW.api_version
TIME = "2020-01-01T00:00:00Z"


class Event:
    """A stored event and its owners."""

    def __init__(self, *served):
        self._served = {definition.api_version: definition for definition in served or (CORE, NEW)}
        self._views = FieldViews(self._served)
        self.stored = None

    def apply(self, manager, version, config, *, force=False):
        view = self._views(version, "")
        applied = without_waiting(
            apply(self._views, view, self.stored, config, Applier(manager, TIME, force))
        )
        if applied.object is not None:
            document = {**applied.object, "metadata": {}}
            self.stored = view.store(view.schema.decode_object(document).object)
        self.stored["metadata"] = {"managedFields": applied.managed_fields}

    def update(self, manager, version, **parts):
        view = self._views(version, "")
        shown = {**view.show(self.stored), **parts, "metadata": {}}
        new = view.store(view.schema.decode_object(shown).object)
        managed = without_waiting(owned_after(self._views, view, self.stored, new, manager, TIME))
        self.stored = {**new, "metadata": {"managedFields": managed}}

    def forget(self, version):
        """The version is no longer served."""
        self._views = FieldViews({name: one for name, one in self._served.items() if name != version})

    @property
    def owners(self):
        return {
            (one["manager"], one["apiVersion"]): one["fieldsV1"]
            for one in self.stored["metadata"]["managedFields"]
        }


def test_update_takes_fields_from_owners_in_other_versions():
    event = Event()
    event.apply("m1", OLD_VERSION, {"message": "a", "reason": "r", "count": 1})
    event.update("u1", NEW_VERSION, note="b")
    assert event.owners == {
        ("m1", OLD_VERSION): {"f:count": {}, "f:reason": {}},
        ("u1", NEW_VERSION): {"f:note": {}},
    }


def test_conflict_names_the_field_in_the_version_of_its_owner():
    event = Event()
    event.apply("m1", OLD_VERSION, {"message": "a"})
    event.update("u1", NEW_VERSION, reason="r")
    with pytest.raises(ApplyConflict) as refused:
        event.apply("m2", NEW_VERSION, {"note": "b", "reason": "s"})
    assert str(refused.value) == (
        'Apply failed with 2 conflicts: conflicts with "m1":\n- .message\n'
        f'conflicts with "u1" using {NEW_VERSION}:\n- .reason'
    )


def test_applier_entry_moves_to_the_version_it_applies():
    event = Event()
    event.apply("m1", OLD_VERSION, {"message": "a", "reason": "r"})
    event.apply("m1", NEW_VERSION, {"reason": "r"})
    assert event.owners == {("m1", NEW_VERSION): {"f:reason": {}}}
    assert "message" not in event.stored
    assert event.stored["reason"] == "r"


def test_field_owned_in_another_version_is_not_pruned():
    event = Event()
    event.apply("m1", OLD_VERSION, {"message": "a", "involvedObject": {"kind": "Pod"}})
    event.apply("m2", NEW_VERSION, {"note": "a"})
    event.apply("m1", OLD_VERSION, {"involvedObject": {"kind": "Pod"}})
    assert event.stored["message"] == "a"
    assert event.owners == {
        ("m1", OLD_VERSION): {"f:involvedObject": {}},
        ("m2", NEW_VERSION): {"f:note": {}},
    }


def test_an_updater_has_an_entry_for_each_version():
    event = Event()
    event.apply("m1", OLD_VERSION, {"reason": "r"})
    event.update("u1", OLD_VERSION, message="a")
    event.update("u1", NEW_VERSION, type="Normal")
    assert event.owners[("u1", OLD_VERSION)] == {"f:message": {}}
    assert event.owners[("u1", NEW_VERSION)] == {"f:type": {}}


def test_entries_of_unserved_versions_are_dropped_at_the_next_change():
    event = Event()
    event.apply("m1", OLD_VERSION, {"reason": "r"})
    event.apply("m2", NEW_VERSION, {"note": "a"})
    event.forget(NEW_VERSION)
    event.update("u1", OLD_VERSION, type="Normal")
    assert set(event.owners) == {("m1", OLD_VERSION), ("u1", OLD_VERSION)}
