"""The plan of a Chaos object: which faults happen, when, and to which nodes. Pure: the same seed gives the same plan.

    seed: 7
    faults:
    - name: flapping
      after: 1m          # since the creation of the object
      every: 5m          # without it, the fault happens once
      jitter: 30s        # each time up to so much later, by the seed
      for: 40s           # without it, until the object is deleted
      times: 10
      stopNodes: {choose: 1, matchLabels: {pool: spot}}

A time of a fault depends on the seed, the name of the fault and its number, and on nothing else. The nodes that it hits
also depend on those that exist when it begins; the status of the object has them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import ceil
from typing import Any, Final

from rewound.actors.kinds.values.times import duration_error, duration_seconds
from rewound.actors.messages import Object

GROUP, VERSION, KIND = "sim.rewound", "v1alpha1", "Chaos"
TYPE_NAME: Final = f"chaos.{GROUP}"
# Annotations of Node objects, which `nodes` obeys.
STOPPED, LAG, BAD_IMAGES, CLOCK_SKEW = "sim/stopped", "sim/lag", "sim/bad-images", "sim/clock-skew"
# Patterns of a node without that annotation; Kubernetes' end-to-end tests use the last one.
DEFAULT_BAD_IMAGES: Final = "*:non-existent,invalid.*/*,webserver:404"
MOST_FAULTS: Final = 100
_MOST_SECONDS: Final = 10 * 365 * 86400  # of a lag or a skew
_SHORTEST: Final = 1.0  # seconds between two times of a fault
_SCHEDULE: Final = ("name", "after", "every", "jitter", "for", "times")
_TARGET: Final = ("names", "matchLabels", "zones", "choose")


class ChaosError(ValueError):
    """A Chaos object is invalid; the text names the field."""


@dataclass(frozen=True, slots=True)
class Target:
    """Which nodes a fault hits."""

    names: tuple[str, ...] = ("*",)
    labels: tuple[tuple[str, str], ...] = ()
    zones: tuple[str, ...] = ()  # empty: any
    choose: str = "100%"  # a number or a part of the matching nodes, or of the zones of `whole_zones`
    whole_zones: bool = False

    def chosen(self, nodes: Sequence[Object], zone_label: str, source: random.Random) -> list[str]:
        """The names of the nodes that are hit, of all nodes."""
        matching: dict[str, list[str]] = {}
        for node in nodes:
            name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
            zone = labels.get(zone_label, "")
            if (
                any(fnmatchcase(name, pattern) for pattern in self.names)
                and all(labels.get(key) == value for key, value in self.labels)
                and (not self.zones or zone in self.zones)
                and (zone or not self.whole_zones)
            ):
                matching.setdefault(zone if self.whole_zones else name, []).append(name)
        groups = sorted(matching)
        picked = source.sample(groups, min(self._number(len(groups)), len(groups)))
        return sorted(name for group in picked for name in matching[group])

    def _number(self, among: int) -> int:
        if self.choose.endswith("%"):
            return ceil(among * float(self.choose[:-1]) / 100)
        return int(self.choose)


@dataclass(frozen=True, slots=True)
class PlannedFault:
    name: str
    kind: str
    target: Target | None  # None: it does not hit nodes
    annotations: Mapping[str, str]  # of the nodes that it hits
    document: Object  # of an API fault: its rules
    after: float
    every: float | None
    jitter: float
    lasts: float | None
    times: int | None

    def begins(self, seed: int, number: int) -> float | None:
        """Seconds from the creation of the object to the fault of this number; None: it is not repeated so often."""
        if self.times is not None and number >= self.times:
            return None
        late = self.source(seed, number).random() * self.jitter
        return self.after + number * (self.every or 0.0) + late

    def source(self, seed: int, number: int) -> random.Random:
        return random.Random(f"{seed}/{self.name}/{number}")


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    faults: tuple[PlannedFault, ...]


def parse_plan(spec: Object) -> Plan:
    """Raises ChaosError."""
    seed, faults = spec.get("seed", 0), spec.get("faults") or []
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise ChaosError("spec.seed: has to be an integer")
    if not isinstance(faults, list) or not faults:
        raise ChaosError("spec.faults: has to be a list of at least one fault")
    if len(faults) > MOST_FAULTS:
        raise ChaosError(f"spec.faults: has {len(faults)} faults; at most {MOST_FAULTS} are allowed")
    parsed: dict[str, PlannedFault] = {}
    for index, one in enumerate(faults):
        fault = _Reader(f"spec.faults[{index}]", one).fault()
        if fault.name in parsed:
            raise ChaosError(
                f"spec.faults[{index}].name: another fault is called {fault.name}; give it its own name"
            )
        parsed[fault.name] = fault
    return Plan(seed, tuple(parsed.values()))


class _Reader:
    """Reads one mapping; every mistake is a ChaosError that names the field."""

    def __init__(self, where: str, given: Any) -> None:
        if not isinstance(given, dict):
            raise ChaosError(f"{where}: has to be a mapping")
        self._where, self._given = where, given

    def fault(self) -> PlannedFault:
        kinds = [name for name in self._given if name not in _SCHEDULE]
        if len(kinds) != 1 or kinds[0] not in KINDS:
            raise ChaosError(f"{self._where}: has to have one of {', '.join(KINDS)}")
        kind = kinds[0]
        of_kind = _Reader(f"{self._where}.{kind}", self._given[kind])
        target, annotations, document = KINDS[kind](of_kind)
        every, jitter = self._seconds("every"), self._seconds("jitter") or 0.0
        lasts, times = self._seconds("for"), self._given.get("times")
        if times is not None and (not isinstance(times, int) or isinstance(times, bool) or times < 1):
            raise ChaosError(f"{self._where}.times: has to be 1 or more")
        if every is None:
            if times not in (None, 1):
                raise ChaosError(
                    f"{self._where}.times: has no effect without every; add it or leave this out"
                )
            times = 1
        elif every < _SHORTEST or lasts is None or lasts + jitter > every:
            raise ChaosError(
                f"{self._where}.every: has to be at least {_SHORTEST:g}s, and as long as for and jitter together"
            )
        return PlannedFault(
            name=str(self._given.get("name") or kind),
            kind=kind,
            target=target,
            annotations=annotations,
            document=document,
            after=self._seconds("after") or 0.0,
            every=every,
            jitter=jitter,
            lasts=lasts,
            times=times,
        )

    def target(self, *also: str, whole_zones: bool = False) -> Target:
        for name in self._given:
            if name not in (*_TARGET, *also):
                raise ChaosError(
                    f"{self._where}.{name}: is not a field; there are {', '.join((*also, *_TARGET))}"
                )
        labels = self._given.get("matchLabels") or {}
        if not isinstance(labels, dict):
            raise ChaosError(f"{self._where}.matchLabels: has to be a mapping")
        return Target(
            self.texts("names") or ("*",),
            tuple(sorted((str(key), str(value)) for key, value in labels.items())),
            self.texts("zones"),
            self._choose(),
            whole_zones,
        )

    def _choose(self) -> str:
        text = str(self._given.get("choose", "100%"))
        number = text.removesuffix("%")
        if not (number.isascii() and number.isdigit() and len(number) < 7) or (
            text != number and int(number) > 100
        ):
            raise ChaosError(f"{self._where}.choose: {text!r} is no number, and no part such as 50%")
        return text

    def texts(self, name: str) -> tuple[str, ...]:
        found = self._given.get(name) or []
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise ChaosError(f"{self._where}.{name}: has to be a list of texts")
        return tuple(found)

    def seconds_text(self, name: str, least: int) -> str:
        """A number of seconds, as annotations have it."""
        found = self._given.get(name)
        if (
            not isinstance(found, (int, float))
            or isinstance(found, bool)
            or not least <= found <= _MOST_SECONDS
        ):
            raise ChaosError(
                f"{self._where}.{name}: has to be a number of seconds from {least} to {_MOST_SECONDS}"
            )
        return str(int(found) if found == int(found) else found)

    def document(self) -> Object:
        return self._given

    def _seconds(self, name: str) -> float | None:
        text = self._given.get(name)
        if text is None:
            return None
        if not isinstance(text, str) or duration_error(text) or duration_seconds(text) < 0:
            raise ChaosError(f"{self._where}.{name}: {text!r} is no duration, such as 30s or 5m")
        return duration_seconds(text)


_Read = Callable[[_Reader], tuple[Target | None, Mapping[str, str], Object]]


def _stop_nodes(given: _Reader) -> tuple[Target | None, Mapping[str, str], Object]:
    return given.target(), {STOPPED: "true"}, {}


def _stop_zones(given: _Reader) -> tuple[Target | None, Mapping[str, str], Object]:
    return given.target(whole_zones=True), {STOPPED: "true"}, {}


def _lag_nodes(given: _Reader) -> tuple[Target | None, Mapping[str, str], Object]:
    return given.target("seconds"), {LAG: given.seconds_text("seconds", 0)}, {}


def _skew_clocks(given: _Reader) -> tuple[Target | None, Mapping[str, str], Object]:
    return given.target("seconds"), {CLOCK_SKEW: given.seconds_text("seconds", -_MOST_SECONDS)}, {}


def _fail_images(given: _Reader) -> tuple[Target | None, Mapping[str, str], Object]:
    images = given.texts("images") or ("*",)
    return given.target("images"), {BAD_IMAGES: ",".join(images)}, {}


def _fail_requests(given: _Reader) -> tuple[Target | None, Mapping[str, str], Object]:
    return None, {}, given.document()


KINDS: Final[dict[str, _Read]] = {
    "stopNodes": _stop_nodes,
    "stopZones": _stop_zones,
    "lagNodes": _lag_nodes,
    "skewClocks": _skew_clocks,
    "failImages": _fail_images,
    "failRequests": _fail_requests,
}
