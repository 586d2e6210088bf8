"""`rewound why`: which filter of the scheduler removed which nodes for a pod, and how the others scored.

    rewound why web-1                        a pod that waits: now; one that runs: when it got its node
    rewound why web-1 -n shop -o json        the whole explanation, with every node and plugin
    rewound why web-1 --at 10m               as the cluster was ten minutes ago
    rewound why web-1 --data-dir backup      from a data folder, without a server

It decides again, by the objects of that moment, whether or not the server runs the scheduler. A star marks the node
that the pod has. Devices that the scheduler then gave to this pod alone count as free. The result may differ from the
scheduler's in two ways: pods that were being bound at that moment may count in one and not in the other, and of a
hundred nodes or more the scheduler compares only a part.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rewound.actors.names import Names
from rewound.actors.rewind.difference import escaped
from rewound.actors.scheduler.configuration import default_configuration, read_configuration
from rewound.actors.scheduler.device_objects import DeviceObjects, devices_are_allocated
from rewound.actors.scheduler.evaluation import Profile, finished
from rewound.actors.scheduler.explanation import explain, lines
from rewound.actors.scheduler.nodes import Cluster
from rewound.actors.scheduler.plugins import SchedulingContext
from rewound.actors.scheduler.pods import PodFacts
from rewound.actors.scheduler.spread import CONTROLLER_TYPES, default_selector
from rewound.actors.scheduler.volume_objects import VolumeObjects
from rewound.actors.versions.features import DEVICE_TAINT_RULES, release_of
from rewound.cli.journal.flags import MOMENT, Options, Parser, add_output, add_source, moment
from rewound.cli.journal.opening import open_source
from rewound.cli.journal.printing import Output
from rewound.client.errors import Failure, UsageError
from rewound.recording.query.entries import Document
from rewound.recording.query.moments import Moment
from rewound.recording.query.source import Source, Wanted

_NODE = "/spec/nodeName"
_TYPE = re.compile("^(po|pods?)/")  # before a name, as kubectl prints it
_OWNERS = ("replicationcontrollers", "replicasets.apps", "statefulsets.apps")
_DEVICES = ("resourceclaims", "deviceclasses", "resourceslices", "devicetaintrules")
_STORAGE = ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities")


def add_flags(parser: Parser) -> None:
    parser.add_argument("name", metavar="POD", help="the name of the pod, pod/NAME or NAMESPACE/NAME")
    parser.add_argument(
        "--at",
        type=moment,
        metavar="MOMENT",
        help=f"{MOMENT} (default: now, or when the pod got its node)",
    )
    parser.add_argument(
        "--scheduler-config",
        type=Path,
        metavar="FILE",
        help="the KubeSchedulerConfiguration of the scheduler (default: one profile, default-scheduler)",
    )
    add_output(parser, "json")
    add_source(parser)


def run(options: Options, output: Output) -> int:
    with open_source(options) as source:
        names = source.names()
        profiles = _profiles(options.scheduler_config, names)
        wanted = source.wanted("pods", _TYPE.sub("", options.name, count=1), options.namespace)
        at = options.at or Moment()
        pod = next(source.objects(wanted, at))
        if options.at is None and pod["spec"].get("nodeName"):
            at = _before_binding(source, wanted)
        profile = profiles.get(pod["spec"].get("schedulerName", ""))
        if profile is None:
            raise Failure(
                f"{options.name}: no profile has its schedulerName {pod['spec'].get('schedulerName', '')!r}; give "
                "the file of that scheduler as --scheduler-config"
            )
        explanation = _explained(source, names, profile, pod, at)
    if options.output == "json":
        output.json(explanation)
    else:
        for line in lines(explanation):
            output.line(escaped(line))
    return 0


def _profiles(path: Path | None, names: Names) -> dict[str, Profile]:
    if path is None:
        return dict(default_configuration().profiles)
    try:
        return dict(read_configuration(path, names).profiles)
    except ValueError as wrong:
        raise UsageError(f"--scheduler-config: {wrong}") from None


def _before_binding(source: Source, wanted: Wanted) -> Moment:
    """The last version before the pod got its node."""
    for version in source.history(wanted, None):
        patch = version.get("patch") or ()
        if any(one["path"] == _NODE for one in patch):
            return Moment(int(version["version"]) - 1)
        if any(one["path"] == "" and one["op"] == "add" for one in patch):
            raise Failure(f"{wanted.name}: was created with a node; no scheduler chose it")
    raise Failure(f"{wanted.name}: the journal does not reach back to when it got its node; give --at")


@dataclass(frozen=True, slots=True)
class _Listed:
    """The listed objects of one type, as the scheduler's cache has them."""

    by_key: dict[tuple[str, str], Document]

    def get(self, namespace: str, name: str) -> Document | None:
        return self.by_key.get((namespace, name))

    def __iter__(self) -> Iterator[Document]:
        return iter(self.by_key.values())


class _Moment:
    """The cluster at one moment."""

    def __init__(self, source: Source, at: Moment) -> None:
        self._source, self._at = source, at

    def all(self, kind: str, namespace: str = "") -> _Listed:
        wanted = self._source.all_of(kind, namespace, everywhere=not namespace)
        found = self._source.objects(wanted, self._at)
        return _Listed(
            {(one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in found}
        )


def _explained(source: Source, names: Names, profile: Profile, pod: Document, at: Moment) -> Document:
    features = release_of(source.kubernetes()).features
    moment_, cluster = _Moment(source, at), Cluster(names, features)
    for node in moment_.all("nodes"):
        cluster.set_node(node)
    own = pod["metadata"]["uid"]
    for other in moment_.all("pods"):
        ended = other.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if other["spec"].get("nodeName") and not ended and other["metadata"]["uid"] != own:
            cluster.assume(cluster.shapes.facts(other), other["spec"]["nodeName"])
    facts = cluster.shapes.facts(pod)
    around = _surroundings(moment_, cluster, facts)
    steps = explain(profile, facts, around, pod["spec"].get("nodeName", ""))
    if devices_are_allocated(features):
        around.devices = _devices(source, names, moment_, pod)
        return finished(steps, around.devices.selectors.work_here)
    return finished(steps)


def _devices(source: Source, names: Names, moment_: _Moment, pod: Document) -> DeviceObjects:
    """Claims, classes and slices; a claim that only this pod uses had no devices before it was scheduled."""
    features = release_of(source.kubernetes()).features
    kinds = _DEVICES if DEVICE_TAINT_RULES in features else _DEVICES[:-1]
    claims, *others = (moment_.all(f"{kind}.{names.group('resource')}") for kind in kinds)
    if pod["spec"].get("nodeName"):
        for claim in claims:
            status = claim.get("status", {})
            if [one["uid"] for one in status.get("reservedFor") or ()] == [pod["metadata"]["uid"]]:
                for part in ("allocation", "reservedFor", "devices"):
                    status.pop(part, None)
    return DeviceObjects(names, features, lambda: time.time_ns() // 1000, claims, *others)


def _surroundings(moment_: _Moment, cluster: Cluster, pod: PodFacts) -> SchedulingContext:
    volumes = VolumeObjects(cluster.names)
    if pod.shape.volumes:
        kinds = ("persistentvolumeclaims", "persistentvolumes", *_STORAGE)
        volumes = VolumeObjects(cluster.names, *(moment_.all(kind) for kind in kinds))
    services = moment_.all("services", pod.namespace)
    owners = {
        kind: moment_.all(plural, pod.namespace)
        for kind, plural in zip(CONTROLLER_TYPES, _OWNERS, strict=True)
    }
    labels = {one["metadata"]["name"]: one["metadata"].get("labels", {}) for one in moment_.all("namespaces")}
    return SchedulingContext(cluster, volumes, labels, default_selector(pod, services, owners))
