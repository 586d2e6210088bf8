"""Two end states are equal if they differ only in values that the server chose; any other difference is reported."""

from __future__ import annotations

from typing import Any

from rewound.testing.explore.chosen import Chosen
from rewound.testing.explore.end_state import End, differences, end_state
from rewound.testing.explore.invariants import State, Version
from tests.cases import cases

UIDS = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")


def ended(
    uid: str, version: int, address: str, port: int, name: str, data: dict[str, Any], **status: Any
) -> End:
    """A service, a pod with a generated name, and a ConfigMap into which a controller copied their values."""
    chosen, state = Chosen(), State()
    ports = [{"port": 80, "nodePort": port}]
    service = {"spec": {"clusterIP": address, "clusterIPs": [address], "ports": ports}}
    pod = {"metadata": {"name": name, "generateName": "web-", "uid": f"3{uid[1:]}"}, "spec": {}}
    for number, (resource, kind, one) in enumerate(
        (
            ("services", "Service", {"metadata": {"name": "web", "uid": uid}, **service}),
            ("pods", "Pod", pod),
            (
                "configmaps",
                "ConfigMap",
                {"metadata": {"name": "c", "uid": "c", "generation": version}, **data},
            ),
        ),
        version,
    ):
        body = {"kind": kind, **one, **(status if kind == "ConfigMap" else {})}
        found = Version(number, "create", "u", kind, resource, "default", one["metadata"]["name"], None, body)
        state.put(found)
        chosen.add(found)
    return end_state(state, chosen)


def two_ends(data: Any, other: Any = None, **status: Any) -> list[str]:
    """`data` of this and of the other run, as functions of the values that the server chose."""
    runs = ((UIDS[0], 7, "10.0.0.17", 30001, "web-abc12"), (UIDS[1], 9, "10.0.0.21", 30007, "web-xyz89"))
    expected, found = (
        ended(*run, {"data": make(*run)}, **{key: one(run) for key, one in status.items()})
        for run, make in zip(runs, (data, other or data), strict=True)
    )
    return differences(expected, found)


@cases(
    "data",
    [
        lambda uid, *_: {"owner": uid, "volume": f"pvc-{uid}", uid: "x"},
        lambda uid, version, *_: {"seen": str(version), "text": f"web at {version}"},
        lambda uid, version, address, port, name: {"url": f"http://{address}:{port}/", "port": port},
        lambda uid, version, address, port, name: {"pod": name, "config": f"of-{name}.conf"},
        lambda uid, version, *_: {"time": f"2026-01-01T00:00:0{version}Z"},
    ],
)
def test_what_the_server_chose_does_not_count(data: Any) -> None:
    assert two_ends(data) == []


@cases(
    "data, other, line",
    [
        (lambda *_: {"count": "1"}, lambda *_: {"count": "2"}, 'data.count is "2", and "1" without faults'),
        (lambda *_: {"port": 30001}, lambda *_: {"port": 30002}, "data.port is 30002, and 30001"),
        (
            lambda uid, *_: {"owner": uid},
            lambda uid, *_: {"owner": f"3{uid[1:]}"},
            'data.owner is "uid of pods default/web-*", and "uid of services default/web"',
        ),
        (
            lambda uid, version, *_: {"seen": str(version)},
            lambda uid, version, *_: {"seen": str(version + 1)},
            'data.seen is "10", and "7" without faults',
        ),
        (lambda *_: {"pod": "web-1"}, lambda *_: {"pod": "web-2"}, 'data.pod is "web-2", and "web-1"'),
    ],
)
def test_what_a_controller_chose_counts(data: Any, other: Any, line: str) -> None:
    (found,) = two_ends(data, other)
    assert found.startswith(f"configmaps default/c: {line}"), found


def test_observed_generation_counts_as_current_or_not() -> None:
    def nothing(*_: Any) -> Any:
        return {}

    assert two_ends(nothing, status=lambda run: {"observedGeneration": run[1]}) == []
    (line,) = two_ends(nothing, status=lambda run: {"observedGeneration": 7})
    assert line == 'configmaps default/c: status.observedGeneration is 7, and "current" without faults'


def test_conditions_have_no_order() -> None:
    both = [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]

    def conditions(run: Any) -> Any:
        return {"conditions": both if run[1] == 7 else both[::-1]}

    assert two_ends(lambda *_: {}, status=conditions) == []
