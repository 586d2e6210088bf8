"""The configuration of the scheduler: its profiles, and how it samples nodes and backs off.

Without a file there is one profile, default-scheduler, with the plugins and weights of v1.25. `read_configuration`
reads a KubeSchedulerConfiguration, version v1beta3 or v1:

    apiVersion: kubescheduler.config.cluster.io/v1beta3
    kind: KubeSchedulerConfiguration
    percentageOfNodesToScore: 50
    profiles:
    - schedulerName: default-scheduler
    - schedulerName: packing
      plugins:
        score: {disabled: [{name: ImageLocality}], enabled: [{name: NodeResourcesFit, weight: 5}]}
      pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated}}

Fields for a separate program (parallelism, leaderElection, clientConnection, addresses and profiling) are accepted and
ignored; everything else that is unknown or invalid is an error that names the field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rewound.actors.access.remote.yaml_file import NotYaml, load_yaml
from rewound.actors.kinds.core.node_selector import node_selector_rules, node_selector_term_rules
from rewound.actors.kinds.validation import collect, qualified_name
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.scheduler.dynamic_resources import DynamicResources
from rewound.actors.scheduler.evaluation import Profile
from rewound.actors.scheduler.plugins import (
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeUnschedulable,
    Plugin,
    TaintToleration,
)
from rewound.actors.scheduler.pod_affinity import InterPodAffinity
from rewound.actors.scheduler.queue import INITIAL_BACKOFF, LONGEST_BACKOFF
from rewound.actors.scheduler.resources import (
    DEFAULT_WEIGHTS,
    ImageLocality,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    Strategy,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)
from rewound.actors.scheduler.spread import HARD, SOFT, PodTopologySpread
from rewound.actors.scheduler.volumes import (
    DISK_KINDS,
    DiskLimits,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)

DEFAULT_NAME: Final = "default-scheduler"
BIND_TIMEOUT: Final = 600.0
_KIND: Final = "KubeSchedulerConfiguration"
_OF_A_PROGRAM: Final = (
    "parallelism",
    "leaderElection",
    "clientConnection",
    "healthzBindAddress",
    "metricsBindAddress",
    "enableProfiling",
    "enableContentionProfiling",
)
# The plugins that run unless a profile says otherwise, in the order of v1.25, with their weights.
_DEFAULTS: Final[Mapping[str, int]] = {
    "PrioritySort": 0,
    "NodeUnschedulable": 0,
    "NodeName": 0,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": 0,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": 0,
    "EBSLimits": 0,
    "GCEPDLimits": 0,
    "NodeVolumeLimits": 0,
    "AzureDiskLimits": 0,
    "VolumeBinding": 0,
    "VolumeZone": 0,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "DefaultPreemption": 0,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DefaultBinder": 0,
    "NodeDeclaredFeatures": 0,
}
_NOT_DEFAULT: Final = ("CinderLimits",)
# The extension points that each plugin implements.
_FILTERS: Final = frozenset(
    [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        *DISK_KINDS,
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "NodeDeclaredFeatures",
    ]
)
_POINTS: Final[Mapping[str, frozenset[str]]] = {
    "queueSort": frozenset(["PrioritySort"]),
    "preFilter": frozenset(
        [
            "NodeAffinity",
            "NodePorts",
            "NodeResourcesFit",
            "VolumeRestrictions",
            "VolumeBinding",
            "PodTopologySpread",
            "InterPodAffinity",
            "DynamicResources",
            "NodeDeclaredFeatures",
        ]
    ),
    "filter": _FILTERS,
    "postFilter": frozenset(["DynamicResources", "DefaultPreemption"]),
    "preScore": frozenset(["TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity"]),
    "score": frozenset(
        [
            "TaintToleration",
            "NodeAffinity",
            "NodeResourcesFit",
            "PodTopologySpread",
            "InterPodAffinity",
            "DynamicResources",
            "NodeResourcesBalancedAllocation",
            "ImageLocality",
        ]
    ),
    "reserve": frozenset(["VolumeBinding", "DynamicResources"]),
    "permit": frozenset(),
    "preBind": frozenset(["VolumeBinding", "DynamicResources"]),
    "bind": frozenset(["DefaultBinder"]),
    "postBind": frozenset(),
}
# A plugin at the second point needs its work at the first.
_NEEDS: Final = (
    ("preFilter", "filter"),
    ("preScore", "score"),
    ("reserve", "filter"),
    ("preBind", "filter"),
)


class SchedulerConfigurationError(ValueError):
    """The configuration cannot be used; the text names the file and the field."""


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    profiles: Mapping[str, Profile]
    percentage_of_nodes: int = 0  # of feasible nodes to be scored; 0: by the number of nodes
    initial_backoff: float = INITIAL_BACKOFF
    longest_backoff: float = LONGEST_BACKOFF

    def plugins(self) -> list[Plugin]:
        return [plugin for profile in self.profiles.values() for plugin in profile.plugins]

    def wakes(self) -> dict[str, frozenset[str]]:
        """The plugins that each kind of change may help."""
        found: dict[str, frozenset[str]] = {}
        for plugin in self.plugins():
            for change in plugin.wakes:
                found[change] = found.get(change, frozenset()) | {plugin.name}
        return found


def default_configuration() -> SchedulerConfiguration:
    profile = _profile(_Section("", "", {}), DEFAULT_NAME)
    return SchedulerConfiguration({DEFAULT_NAME: profile})


def read_configuration(path: Path, names: Names) -> SchedulerConfiguration:
    try:
        document = load_yaml(path.read_bytes())
    except OSError as error:
        raise SchedulerConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except NotYaml as error:
        raise SchedulerConfigurationError(f"{path}: {error}") from None
    group = names.group("kubescheduler.config")
    versions = [f"{group}/v1beta3", f"{group}/v1"]
    if not isinstance(document, dict) or document.get("kind") != _KIND:
        raise SchedulerConfigurationError(f"{path}: kind: write apiVersion: {versions[0]} and kind: {_KIND}")
    if document.get("apiVersion") not in versions:
        raise SchedulerConfigurationError(f"{path}: apiVersion: must be {' or '.join(versions)}")
    return _configuration(_Section(str(path), "", document))


class _Section:
    """A mapping of the file, of which every field is read once: fields that nobody reads are unknown."""

    def __init__(self, path: str, place: str, fields: Mapping[str, Any]) -> None:
        self._path, self._place, self._fields = path, place, fields
        self._known: set[str] = set()

    def error(self, field: str, why: str) -> SchedulerConfigurationError:
        where = f"{self._place}.{field}".strip(".")
        return SchedulerConfigurationError(f"{self._path}: {where}: {why}")

    def value(self, field: str) -> Any:
        self._known.add(field)
        return self._fields.get(field)

    def text(self, field: str) -> str:
        value = self.value(field)
        if not isinstance(value, str | None):
            raise self.error(field, "must be a string")
        return value or ""

    def integer(self, field: str, default: int, least: int, most: int | None = None) -> int:
        value = self.value(field)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(field, "must be an integer")
        if value < least or (most is not None and value > most):
            raise self.error(
                field, f"must be {least} to {most}" if most is not None else f"must be {least} or more"
            )
        return value

    def texts(self, field: str) -> list[str]:
        value = self.value(field) or []
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.error(field, "must be a list of strings")
        return value

    def section(self, field: str) -> _Section:
        value = self.value(field)
        if not isinstance(value, dict | None):
            raise self.error(field, "must be a mapping")
        return _Section(self._path, f"{self._place}.{field}", value or {})

    def sections(self, field: str) -> list[_Section]:
        value = self.value(field) or []
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.error(field, "must be a list of mappings")
        return [_Section(self._path, f"{self._place}.{field}[{at}]", one) for at, one in enumerate(value)]

    def has(self, field: str) -> bool:
        return self._fields.get(field) is not None

    def end(self, *others: str) -> None:
        """Reject fields that nobody read, apart from `others`."""
        for field in self._fields:
            if field not in self._known and field not in others:
                known = ", ".join(sorted(self._known)) or "none"
                raise self.error(str(field), f"is not known; there are {known}")


def _configuration(top: _Section) -> SchedulerConfiguration:
    for field in ("apiVersion", "kind", *_OF_A_PROGRAM):
        top.value(field)
    if top.value("extenders"):
        raise top.error("extenders", "this scheduler calls no extenders; remove the field")
    percentage = top.integer("percentageOfNodesToScore", 0, 0, 100)
    initial = top.integer("podInitialBackoffSeconds", int(INITIAL_BACKOFF), 1)
    longest = top.integer("podMaxBackoffSeconds", int(LONGEST_BACKOFF), 1)
    if longest < initial:
        raise top.error("podMaxBackoffSeconds", "must not be less than podInitialBackoffSeconds")
    sections = top.sections("profiles") or [_Section("", "profiles[0]", {})]
    top.end()
    profiles: dict[str, Profile] = {}
    for section in sections:
        name = section.text("schedulerName") or (DEFAULT_NAME if len(sections) == 1 else "")
        if not name:
            raise section.error("schedulerName", "is needed if there are several profiles")
        if name in profiles:
            raise section.error("schedulerName", f"two profiles have the name {name}")
        profiles[name] = _profile(section, name)
    return SchedulerConfiguration(profiles, percentage, float(initial), float(longest))


def _profile(section: _Section, name: str) -> Profile:
    arguments = _arguments(section)
    points, weights = _points(section.section("plugins"))
    section.end()
    plugins = {plugin: _PLUGINS[plugin](arguments.get(plugin, _nothing())) for plugin in _PLUGINS}
    preemption = arguments.get("DefaultPreemption", _nothing())
    percent = preemption.integer("minCandidateNodesPercentage", 10, 0, 100)
    number = preemption.integer("minCandidateNodesAbsolute", 100, 0)
    if not percent and not number:
        raise preemption.error("minCandidateNodesPercentage", "must not be 0 if minCandidateNodesAbsolute is")
    volumes = arguments.get("VolumeBinding", _nothing())
    timeout = volumes.integer("bindTimeoutSeconds", int(BIND_TIMEOUT), 0)
    for one in arguments.values():
        one.end("apiVersion", "kind")
    return Profile(
        name,
        tuple(plugins[one] for one in points["filter"]),
        tuple((plugins[one], weights[one]) for one in points["score"]),
        preempts="DefaultPreemption" in points["postFilter"],
        least_candidates_percent=percent,
        least_candidates=number,
        bind_timeout=float(timeout),
    )


def _nothing() -> _Section:
    return _Section("", "", {})


def _arguments(section: _Section) -> dict[str, _Section]:
    """The arguments of plugins."""
    found: dict[str, _Section] = {}
    for one in section.sections("pluginConfig"):
        name = one.text("name")
        if name not in (*_DEFAULTS, *_NOT_DEFAULT):
            raise one.error("name", f"there is no plugin {name!r}")
        if name in found:
            raise one.error("name", f"{name} is in the list twice")
        found[name] = one.section("args")
        one.end()
    return found


def _points(section: _Section) -> tuple[dict[str, list[str]], dict[str, int]]:
    """The plugins of each extension point, in order, and the weights of those that score."""
    everywhere, weights = _merged(section.section("multiPoint"))
    found: dict[str, list[str]] = {}
    for point, able in _POINTS.items():
        chosen = section.section(point)
        enabled = _enabled(chosen)
        for name in enabled:
            if name not in able:
                raise chosen.error("enabled", f"{name} does nothing there")
        disabled = _names(chosen, "disabled")
        chosen.end()
        found[point] = _expanded([one for one in everywhere if one in able], enabled, disabled)
        if point == "score":
            weights |= {name: weight or 1 for name, weight in enabled.items()}
    section.end()
    _check_points(section, found)
    return found, weights


def _merged(section: _Section) -> tuple[list[str], dict[str, int]]:
    """The plugins of `multiPoint`: the default ones, without those that it disables, and those that it adds."""
    enabled, disabled = _enabled(section), _names(section, "disabled")
    section.end()
    kept = [] if "*" in disabled else [one for one in _DEFAULTS if one not in disabled]
    names = [*kept, *(one for one in enabled if one not in kept)]
    return names, {name: enabled.get(name) or _DEFAULTS.get(name) or 1 for name in names}


def _expanded(everywhere: Sequence[str], enabled: Mapping[str, int], disabled: Sequence[str]) -> list[str]:
    """Plugins of the point that were also enabled everywhere come first, in its own order."""
    if "*" in disabled:
        return list(enabled)
    left = [one for one in everywhere if one not in disabled]
    first = [one for one in enabled if one in left]
    return [
        *first,
        *(one for one in left if one not in enabled),
        *(one for one in enabled if one not in left),
    ]


def _enabled(section: _Section) -> dict[str, int]:
    """The names and weights of plugins; a weight of 0 means the default."""
    found: dict[str, int] = {}
    for one in section.sections("enabled"):
        name = one.text("name")
        if name not in (*_DEFAULTS, *_NOT_DEFAULT):
            raise one.error("name", f"there is no plugin {name!r}")
        if name in found:
            raise one.error("name", f"{name} is enabled twice")
        found[name] = one.integer("weight", 0, 0)
        one.end()
    return found


def _names(section: _Section, field: str) -> list[str]:
    found = []
    for one in section.sections(field):
        name = one.text("name")
        if name not in ("*", *_DEFAULTS, *_NOT_DEFAULT):
            raise one.error("name", f"there is no plugin {name!r}")
        one.value("weight")
        one.end()
        found.append(name)
    return found


def _check_points(section: _Section, points: Mapping[str, Sequence[str]]) -> None:
    for point in ("queueSort", "bind"):
        if not points[point]:
            raise section.error(point, f"{', '.join(_POINTS[point])} is needed; enable it")
    for first, second in _NEEDS:
        for name in points[second]:
            if name in _POINTS[first] and name not in points[first]:
                raise section.error(
                    first, f"{name} is needed as long as {second} has it; enable it, or disable it there"
                )


def _fit(section: _Section) -> Plugin:
    ignored, groups = section.texts("ignoredResources"), section.texts("ignoredResourceGroups")
    for field, names in (("ignoredResources", ignored), ("ignoredResourceGroups", groups)):
        for name in names:
            if qualified_name(name):
                raise section.error(field, f"{name!r} is no name of a resource")
    for group in groups:
        if "/" in group:
            raise section.error("ignoredResourceGroups", f"{group!r} must not contain /")
    strategy = section.section("scoringStrategy")
    kind = strategy.text("type") or "LeastAllocated"
    weights = _weights(strategy, most=100)
    ratio = strategy.section("requestedToCapacityRatio")
    strategies: dict[str, Callable[[], Strategy]] = {
        "LeastAllocated": lambda: least_allocated,
        "MostAllocated": lambda: most_allocated,
        "RequestedToCapacityRatio": lambda: requested_to_capacity_ratio(_shape(ratio)),
    }
    if kind not in strategies:
        raise strategy.error("type", f"must be {', '.join(strategies)}")
    chosen = strategies[kind]()
    if ratio.has("shape"):
        _shape(ratio)
    ratio.end()
    strategy.end()
    return NodeResourcesFit(chosen, weights, frozenset(ignored), frozenset(groups))


def _shape(section: _Section) -> list[tuple[int, int]]:
    points = []
    for one in section.sections("shape"):
        points.append((one.integer("utilization", 0, 0, 100), one.integer("score", 0, 0, 10)))
        one.end()
        if len(points) > 1 and points[-2][0] >= points[-1][0]:
            raise one.error("utilization", "must be greater than that of the point before")
    if not points:
        raise section.error("shape", "at least one point is needed")
    return points


def _weights(section: _Section, most: int) -> dict[str, int]:
    """The resources that count, with their weights; CPU and memory are equal by default."""
    found: dict[str, int] = {}
    for one in section.sections("resources"):
        name = one.text("name")
        if not name or name in found:
            raise one.error("name", "is needed, and each once")
        found[name] = one.integer("weight", 1, 0, most) or 1
        one.end()
    return found or dict(DEFAULT_WEIGHTS)


def _affinity(section: _Section) -> Plugin:
    added = section.section("addedAffinity")
    required = added.value("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = added.value("preferredDuringSchedulingIgnoredDuringExecution")
    added.end()
    affinity: Object = {}
    try:
        if required is not None:
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required
            wrong = [str(one) for one in collect(node_selector_rules, required, "nodeSelector")]
        else:
            wrong = []
        for one in preferred or ():
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
            int(one["weight"])
            wrong += [
                str(found) for found in collect(node_selector_term_rules, one["preference"], "preference")
            ]
    except (KeyError, TypeError, AttributeError, ValueError):
        raise section.error("addedAffinity", "is no node affinity") from None
    if wrong:
        raise section.error("addedAffinity", wrong[0])
    return NodeAffinity(affinity)


def _spread(section: _Section) -> Plugin:
    kind = section.text("defaultingType") or "System"
    if kind not in ("System", "List"):
        raise section.error("defaultingType", "must be System or List")
    constraints: list[Object] = []
    for one in section.sections("defaultConstraints"):
        if one.has("labelSelector"):
            raise one.error("labelSelector", "must not be there: it follows from each pod")
        constraint = {
            "maxSkew": one.integer("maxSkew", 0, 1),
            "topologyKey": one.text("topologyKey"),
            "whenUnsatisfiable": one.text("whenUnsatisfiable"),
        }
        one.end()
        if constraint["maxSkew"] == 0:
            raise one.error("maxSkew", "is needed, and must be 1 or more")
        if qualified_name(one.text("topologyKey")):
            raise one.error("topologyKey", "is needed, and must be the name of a label")
        if constraint["whenUnsatisfiable"] not in (HARD, SOFT):
            raise one.error("whenUnsatisfiable", f"must be {HARD} or {SOFT}")
        pair = constraint["topologyKey"], constraint["whenUnsatisfiable"]
        if pair in [(other["topologyKey"], other["whenUnsatisfiable"]) for other in constraints]:
            raise one.error("topologyKey", f"{pair[0]} is there twice with {pair[1]}")
        constraints.append(constraint)
    if kind == "System" and constraints:
        raise section.error("defaultingType", "must be List if there are defaultConstraints")
    return PodTopologySpread(None if kind == "System" else constraints)


def _pod_affinity(section: _Section) -> Plugin:
    return InterPodAffinity(section.integer("hardPodAffinityWeight", 1, 0, 100))


def _balanced(section: _Section) -> Plugin:
    return NodeResourcesBalancedAllocation(_weights(section, most=1))


_PLUGINS: Final[Mapping[str, Callable[[_Section], Plugin]]] = {
    "NodeUnschedulable": lambda _: NodeUnschedulable(),
    "NodeName": lambda _: NodeName(),
    "TaintToleration": lambda _: TaintToleration(),
    "NodeAffinity": _affinity,
    "NodePorts": lambda _: NodePorts(),
    "NodeResourcesFit": _fit,
    "VolumeRestrictions": lambda _: VolumeRestrictions(),
    "EBSLimits": lambda _: DiskLimits(DISK_KINDS["EBSLimits"]),
    "GCEPDLimits": lambda _: DiskLimits(DISK_KINDS["GCEPDLimits"]),
    "AzureDiskLimits": lambda _: DiskLimits(DISK_KINDS["AzureDiskLimits"]),
    "CinderLimits": lambda _: DiskLimits(DISK_KINDS["CinderLimits"]),
    "NodeVolumeLimits": lambda _: NodeVolumeLimits(),
    "VolumeBinding": lambda _: VolumeBinding(),
    "VolumeZone": lambda _: VolumeZone(),
    "PodTopologySpread": _spread,
    "InterPodAffinity": _pod_affinity,
    "DynamicResources": lambda _: DynamicResources(),
    "NodeDeclaredFeatures": lambda _: NodeDeclaredFeatures(),
    "NodeResourcesBalancedAllocation": _balanced,
    "ImageLocality": lambda _: ImageLocality(),
}
