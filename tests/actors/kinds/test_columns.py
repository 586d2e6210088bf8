"""Table cells, computed from objects."""

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.columns import SECOND, human_duration, since
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.names import NAMES
from tests.cases import cases

CREATED = "2026-01-01T00:00:00Z"
NOW = micros_of(CREATED) + 90 * SECOND


@cases(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (12_600, "3h30m"),
        (8 * 3600 + 60, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (52 * 3600, "2d4h"),
        (8 * 86_400, "8d"),
        (729 * 86_400, "729d"),
        (730 * 86_400, "2y"),
        (742 * 86_400, "2y12d"),
        (9 * 365 * 86_400 + 86_400, "9y"),
    ],
)
def test_durations_are_rounded_for_people(seconds, text):
    assert human_duration(seconds) == text


def test_missing_time_is_unknown():
    assert since(None, NOW) == "<unknown>"
    assert since(CREATED, NOW) == "90s"


def cells(plural, stored, dialect="cluster"):
    [definition] = [
        one
        for one in built_in(NAMES[dialect]).definitions
        if one.plural == plural and not one.storage.stored_as
    ]
    stored = {**stored, "metadata": {"name": "x", "creationTimestamp": CREATED, **stored.get("metadata", {})}}
    return [column.cell(stored, NOW) for column in definition.table.columns]


def test_config_maps_and_secrets_count_entries():
    assert cells("configmaps", {"data": {"a": "1"}, "binaryData": {"b": "", "c": ""}}) == ["x", 3, "90s"]
    assert cells("secrets", {"type": "Opaque"}) == ["x", "Opaque", 0, "90s"]
    assert cells("serviceaccounts", {"secrets": [{"name": "s"}]}) == ["x", 1, "90s"]


def test_endpoints_list_three_addresses_at_most():
    addresses = [{"ip": f"10.0.0.{n}"} for n in range(1, 6)]
    row = cells("endpoints", {"subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]})
    assert row == ["x", "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more...", "90s"]
    assert cells("endpoints", {})[1] == "<none>"
    assert cells("endpoints", {"subsets": [{"addresses": addresses[:1]}]})[1] == "10.0.0.1"
    assert cells("endpoints", {"subsets": [{"notReadyAddresses": addresses}]})[1] == ""
    longer = [{"addresses": [{"ip": "2001:db8::1"}], "ports": [{"port": 80}]}]
    assert cells("endpoints", {"subsets": longer})[1] == "[2001:db8::1]:80"


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
def test_node_cells(dialect):
    names = NAMES[dialect]
    labels = {names.key("worker", prefix="node-role"): "", names.key("role"): "extra"}
    node = {
        "metadata": {"labels": labels},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}],
            "nodeInfo": {"kubeletVersion": "v1", "osImage": ""},
        },
    }
    expected = ["x", "Ready,SchedulingDisabled", "extra,worker", "90s", "v1", "10.1.1.1"]
    assert cells("nodes", node, dialect) == [*expected, "<none>", "<unknown>", "<unknown>", "<unknown>"]
    assert cells("nodes", {})[1:3] == ["Unknown", "<none>"]
    assert cells("nodes", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})[1] == "NotReady"


def test_event_cells():
    event = {
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
        "reason": "Started",
        "type": "Normal",
        "source": {"component": "agent", "host": "h1"},
        "message": "it runs\n",
        "count": 4,
        "firstTimestamp": CREATED,
        "lastTimestamp": "2026-01-01T00:01:00Z",
    }
    assert cells("events", event) == [
        "30s",
        "Normal",
        "Started",
        "pod/p",
        "spec.containers{c}",
        "agent, h1",
        "it runs",
        "90s",
        4,
        "x",
    ]
    assert cells("events", {"series": {"count": 7, "lastObservedTime": CREATED}})[8] == 7


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
def test_default_storage_class_is_marked(dialect):
    annotation = NAMES[dialect].key("is-default-class", prefix="storageclass")
    stored = {
        "metadata": {"annotations": {annotation: "true"}},
        "provisioner": "p",
        "allowVolumeExpansion": True,
    }
    assert cells("storageclasses", stored, dialect) == ["x (default)", "p", "Delete", "<unset>", True, "90s"]


def test_columns_of_every_kind_handle_a_minimal_object():
    for definition in built_in(NAMES["cluster"]).definitions:
        stored = definition.schema.decode_object({"metadata": {"name": "x"}}).object
        for column in definition.table.columns:
            column.cell(stored, NOW)
