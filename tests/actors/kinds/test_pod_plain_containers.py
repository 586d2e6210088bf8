"""The fast check of plain containers accepts no container that the full rules refuse."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.kinds.core.containers import (
    ContainerRules,
    container_probe_rules,
    image_whitespace_rules,
    is_plain,
)
from rewound.actors.kinds.validation import collect
from tests.cases import cases
from tests.examples import examples

VOLUMES: dict[str, Any] = {"v": {"name": "v", "emptyDir": {}}, "w": {"name": "w", "emptyDir": {}}}
WORDS = ("", "a", "a-b", "A", ".", "..", "..a", "a--b", "x" * 64, "x" * 254, "1", "a b", "a.b", "ü", "-")
NUMBERS = (-1, 0, 1, 80, 65535, 65536)


class RandomContainers:
    """Generates containers whose values are mostly valid, and sometimes unusual or invalid."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def one(self, *valid: Any, unusual: tuple[Any, ...] = ()) -> Any:
        return self._random.choice(unusual if unusual and self._random.random() < 0.05 else valid)

    def some(self, **parts: Any) -> dict[str, Any]:
        return {name: make for name, make in parts.items() if self._random.random() < 0.6}

    def container(self) -> dict[str, Any]:
        return {
            "name": self.one("c", "d-1", unusual=WORDS),
            "image": self.one("i", "i:1", unusual=("", " i", "i ", "\u00a0i")),
            "resources": self.one({}, {}, self.resources()),
            "terminationMessagePolicy": self.one("File", unusual=("", "x", "FallbackToLogsOnError")),
            "imagePullPolicy": self.one("Always", "Never", unusual=("", "x")),
            **self.some(
                ports=[self.port() for _ in range(self.one(0, 1, 2))],
                env=[self.variable() for _ in range(self.one(0, 1, 2))],
                volumeMounts=[self.mount() for _ in range(self.one(0, 1, 2))],
                securityContext=self.context(),
                livenessProbe=self.probe(),
                readinessProbe=self.probe(),
                startupProbe=self.probe(),
                tty=True,
            ),
            **self.one(
                {}, unusual=({"envFrom": [{}]}, {"lifecycle": {"preStop": {}}}, {"volumeDevices": [{}]})
            ),
        }

    def port(self) -> dict[str, Any]:
        port = {
            "containerPort": self.one(1, 80, unusual=NUMBERS),
            "protocol": self.one("TCP", unusual=("", "tcp")),
        }
        return {
            **self.one({}, {"name": self.one("http", "b", unusual=WORDS)}, unusual=({"hostPort": 70000},)),
            **port,
        }

    def variable(self) -> dict[str, Any]:
        key = {"name": self.one("s", unusual=WORDS), "key": self.one("k", unusual=WORDS)}
        field = {"apiVersion": self.one("v1", unusual=("", "v2"))}
        sources = (
            {"secretKeyRef": key},
            {"configMapKeyRef": key},
            {"fieldRef": {**field, "fieldPath": self.one("metadata.name", unusual=("metadata.labels", ""))}},
        )
        unusual = ({}, {**sources[0], **sources[2]}, {"resourceFieldRef": {"resource": "x", "divisor": "0"}})
        value = self.one({"value": "x"}, {}, {"valueFrom": self.one(*sources, unusual=unusual)})
        return {
            "name": self.one("A", "a.b", unusual=WORDS),
            **value,
            **self.one({}, unusual=({"value": "y"},)),
        }

    def resources(self) -> dict[str, Any]:
        amounts = ("1", "500m", "2Gi")
        return self.some(
            **{
                part: self.some(
                    cpu=self.one(*amounts, unusual=("-1",)),
                    memory=self.one(*amounts, unusual=("-1",)),
                    **self.one({}, unusual=({"pods": "1"}, {"example.com/x": "1"}, {"hugepages-2Mi": "1"})),
                )
                for part in ("limits", "requests")
            }
        )

    def mount(self) -> dict[str, Any]:
        unusual = ({"subPath": "/x"}, {"mountPropagation": "x"}, {"readOnly": True, "subPathExpr": ".."})
        path = self.one("/a", "/b", "/c", "/d", unusual=("",))
        return {
            "name": self.one("v", "w", unusual=("x", "")),
            "mountPath": path,
            **self.one({}, unusual=unusual),
        }

    def context(self) -> dict[str, Any]:
        return self.some(
            allowPrivilegeEscalation=self.one(True, False),
            privileged=self.one(True, False),
            capabilities=self.one({}, {"drop": ["ALL"]}, {"add": ["CAP_SYS_ADMIN"]}),
            **self.one({}, unusual=({"runAsUser": -1}, {"procMount": "x"}, {"seccompProfile": {"type": ""}})),
        )

    def probe(self) -> dict[str, Any]:
        port = {"port": self.one(80, unusual=(*NUMBERS, "http", "80"))}
        actions: dict[str, Any] = {
            "exec": self.one({"command": ["x"]}, unusual=({},)),
            "httpGet": {
                **port,
                "path": self.one("/", unusual=("",)),
                "scheme": self.one("HTTP", unusual=("x",)),
                **self.one({}, unusual=({"httpHeaders": [{"name": "a b", "value": ""}]},)),
            },
            "tcpSocket": port,
            "grpc": port,
        }
        chosen = self.one(*actions, unusual=("",))
        handlers = {
            name: action
            for name, action in actions.items()
            if name == chosen or self.one(False, unusual=(True,))
        }
        timings = {"periodSeconds": self.one(1, unusual=(-1,)), "timeoutSeconds": self.one(1, unusual=(-1,))}
        unusual = (
            {"terminationGracePeriodSeconds": 0},
            {"initialDelaySeconds": -1},
            {"failureThreshold": -1},
        )
        return {
            **handlers,
            **timings,
            "successThreshold": self.one(1, unusual=(0, 2)),
            **self.one({}, unusual=unusual),
        }


@examples(100)
@given(st.integers(0, 2**32))
def test_plain_containers_pass_the_full_rules(seed: int) -> None:
    container = RandomContainers(seed).container()
    if is_plain(container, VOLUMES):
        rules = ContainerRules({}, VOLUMES, "cluster.io/", indivisible_huge_pages=False)
        assert collect(rules._common_rules, container, "c") == []
        assert (
            collect(container_probe_rules, container, {}, "c")
            == []
            == collect(image_whitespace_rules, container, "c")
        )


def test_many_random_containers_are_plain() -> None:
    found = [is_plain(RandomContainers(seed).container(), VOLUMES) for seed in range(500)]
    assert sum(found) > 50


@cases("part", ["envFrom", "volumeDevices", "lifecycle", "fieldOfALaterRelease"])
def test_containers_with_uncommon_fields_are_not_plain(part: str) -> None:
    plain = {
        "name": "c",
        "image": "i",
        "resources": {},
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always",
    }
    assert is_plain(plain, {})
    assert not is_plain({**plain, part: {}}, {})
