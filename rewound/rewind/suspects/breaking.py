"""When an object broke, and the words that say why: phases, conditions, containers, Events, refused requests.

An object is broken from the first version of its latest run of versions that are not good. A run of failures may have
short good pauses, as a container has that crashes again and again. `Breakage.effect` is the version at which the
failure was seen for certain: what changed later did not cause it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rewound.actors.rewind.phases import BAD, DONE, GOOD, WORKING, phase_of
from rewound.journal.records import Event
from rewound.rewind.suspects.past import Document, Name, Past, short
from rewound.rewind.suspects.references import CHILDREN, map_at, maps_at, owners, template_of, text_at

SECOND: Final = 1_000_000
MAX_VERSIONS: Final = 300  # of the object, for its run of failures
MAX_CHILDREN: Final = 12  # of each owner: the last changed
MAX_EVENTS: Final = 60  # Events of one object
_PAUSE: Final = 300 * SECOND  # a good time between failures that is shorter does not end the run
_SLACK: Final = 5 * SECOND  # Events are written before or after the status that they explain
_MESSAGE: Final = 1000  # characters
_OK, _WORKING, _FAILING = range(3)


@dataclass(frozen=True, slots=True)
class Symptom:
    """Words of the journal about a failure."""

    of: Name
    version: int
    time: int
    reason: str
    message: str
    source: str  # condition, container, Event, refused request

    @property
    def text(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


@dataclass(slots=True)
class Breakage:
    version: int  # the first version of the failure; that of the search, if nothing is broken
    time: int
    words: str  # empty: nothing is broken
    before: str  # what it was before; empty if it never worked
    effect: int  # the last version that can have caused it
    family: list[Name] = field(default_factory=list)  # the object, its owners and its dependents
    symptoms: list[Symptom] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Health:
    level: int
    words: str


def health_of(type_: str, content: Document) -> _Health:
    """How an object is, by what is stored of it."""
    if map_at(content, "metadata").get("deletionTimestamp"):
        return _Health(_WORKING, "Terminating")
    if found := _own_rule(type_, content):
        return found
    phase = phase_of(type_, content)
    if phase is None or phase.tone in (GOOD, DONE):
        observed = _unobserved(content)
        return _Health(_WORKING, observed) if observed else _Health(_OK, phase.words if phase else "")
    return _Health({BAD: _FAILING, WORKING: _WORKING}.get(phase.tone, _WORKING), phase.words)


def _own_rule(type_: str, content: Document) -> _Health | None:
    """What `phase_of` does not say, or says for a whole rollout only."""
    conditions = {text_at(one, "type"): one for one in maps_at(content, "status", "conditions")}

    def is_(name: str, value: str) -> bool:
        return name in conditions and text_at(conditions[name], "status") == value

    match type_:
        case "pods" if is_("PodScheduled", "False"):
            return _Health(_FAILING, text_at(conditions["PodScheduled"], "reason") or "not scheduled")
        case "nodes":
            for name in ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"):
                if is_(name, "True"):
                    return _Health(_FAILING, name)
        case "horizontalpodautoscalers.autoscaling":
            for name in ("AbleToScale", "ScalingActive"):
                if is_(name, "False") and text_at(conditions[name], "reason") != "ScalingDisabled":
                    return _Health(_FAILING, f"{name} is False: {text_at(conditions[name], 'reason')}")
            return _Health(_OK, "able to scale" if conditions else "")
        case "cronjobs.batch" if map_at(content, "spec").get("suspend") is True:
            return _Health(_WORKING, "Suspended")
        case "poddisruptionbudgets.policy":
            status = map_at(content, "status")
            if status.get("expectedPods") and not status.get("disruptionsAllowed"):
                return _Health(_WORKING, "allows no disruption")
            return _Health(_OK, "allows disruptions")
        case "endpoints":
            ready = any(maps_at(one, "addresses") for one in maps_at(content, "subsets"))
            return _Health(_OK, "has endpoints") if ready else _Health(_FAILING, "no ready endpoints")
        case "endpointslices.discovery":
            some = maps_at(content, "endpoints")
            ready = any(map_at(one, "conditions").get("ready") is not False for one in some)
            return _Health(_OK, "has endpoints") if ready else _Health(_FAILING, "no ready endpoints")
    return None


def _unobserved(content: Document) -> str:
    generation = map_at(content, "metadata").get("generation")
    observed = map_at(content, "status").get("observedGeneration")
    if isinstance(generation, int) and isinstance(observed, int) and observed < generation:
        return f"generation {generation} is not observed"
    return ""


# When.


@dataclass(slots=True)
class _Run:
    """Consecutive versions that are not good."""

    first: Event
    level: int  # the worst
    words: str  # of the worst
    before: str  # what it was before; empty if that is not known
    certain: int  # the first version that is failing; 0: none
    ended: int = 0  # the time of the good version after it; 0: it lasts


def find_breakage(past: Past, target: Name, after: int, refused: Sequence[Document]) -> Breakage | None:
    """When the object broke last; None if the journal does not know it. `after`: the start of the search."""
    newest = past.newest(target)
    if newest is None:
        return None
    family = list(_family(past, target, newest))
    found = (_removed if newest.removed else _broken)(past, target, newest)
    found.family = family
    start = found.version if found.words else after
    found.symptoms = _symptoms(past, found, max(0, start), refused)
    if not found.words:
        # The status says nothing: the newest Event or refusal does. Conditions of its past are over.
        found.symptoms = [one for one in found.symptoms if one.source in ("Event", "refused request")]
        if found.symptoms:
            last = found.symptoms[-1]
            found.words, found.version, found.time = last.reason, last.version, last.time
            found.effect = last.version
    elif not newest.removed and found.words:
        certain = [one.version for one in found.symptoms if one.source != "condition"]
        found.effect = min([one for one in (found.effect, *certain) if one >= found.version])
    return found


def _removed(past: Past, target: Name, last: Event) -> Breakage:
    """A removed object: it broke when its deletion began."""
    versions = past.events(target, 0, last.offset, MAX_VERSIONS)
    began = last
    for event in versions[1:]:
        if event.removed or not map_at(past.parsed(event), "metadata").get("deletionTimestamp"):
            break
        began = event
    return Breakage(began.offset, began.time, "deleted", "", last.offset)


def _broken(past: Past, target: Name, newest: Event) -> Breakage:
    witness = target
    if target.type == "services":
        # The status of a Service has no word about its endpoints.
        witness = _endpoints_of(past, target) or target
    run = _last_run(past, witness)
    if run is None:
        return Breakage(past.upto, past.time_of(past.upto), "", "", past.upto)
    return Breakage(run.first.offset, run.first.time, run.words, run.before, run.certain or past.upto)


def _endpoints_of(past: Past, service: Name) -> Name | None:
    whole = Name("endpoints", service.namespace, service.name)
    if past.sees(whole.type, whole.namespace) and past.newest(whole) is not None:
        return whole
    slices = past.names("endpointslices.discovery", service.namespace, f"{service.name}-", most=10)
    return slices[0] if slices else None


def _last_run(past: Past, one: Name) -> _Run | None:
    """The run that lasts, or else the latest failure; a rollout that has ended well is none."""
    runs: list[_Run] = []
    good = ""
    for event in reversed(past.events(one, 0, past.upto, MAX_VERSIONS)):
        if event.removed:
            runs, good = [], ""
            continue
        health = health_of(one.type, past.parsed(event))
        last = runs[-1] if runs else None
        if health.level == _OK:
            good = health.words or "good"
            if last is not None and not last.ended:
                last.ended = event.time
        elif last is None or last.ended:
            certain = event.offset if health.level == _FAILING else 0
            runs.append(_Run(event, health.level, health.words, good, certain))
            if one.type == "pods":
                _join_last(runs)
        else:
            if health.level >= last.level:
                last.level, last.words = health.level, health.words
            if health.level == _FAILING and not last.certain:
                last.certain = event.offset
    if runs and not runs[-1].ended:
        return runs[-1]
    return next((run for run in reversed(runs) if run.level == _FAILING), None)


def _join_last(runs: list[_Run]) -> None:
    """A container that crashes again and again is well for a while each time."""
    if len(runs) < 2:
        return
    last, earlier = runs[-1], runs[-2]
    if earlier.level == _FAILING and last.first.time - earlier.ended < _PAUSE:
        del runs[-1]
        earlier.ended = 0


# Whose words count.


def _family(past: Past, target: Name, newest: Event) -> Iterator[Name]:
    """The object, its owners, and its dependents that changed last."""
    yield target
    seen, left = {target}, [(target, past.parsed(newest))]
    while left and len(seen) < 10:
        one, content = left.pop()
        for owner in owners(past, one, content):
            if owner not in seen:
                seen.add(owner)
                yield owner
                if (found := past.last_content(owner)) is not None:
                    left.append((owner, found))
    below = [target]
    for _ in range(3):
        below = [child for one in below for child in children(past, one) if child not in seen]
        seen.update(below)
        yield from below


def children(past: Past, one: Name) -> Iterator[Name]:
    """The dependents of a workload that changed last. Built-in controllers begin their names with its name."""
    uid = text_at(past.last_content(one) or {}, "metadata", "uid")
    for type_ in CHILDREN.get(one.type, ()):
        count = 0
        for name in past.names(type_, one.namespace, f"{one.name}-")[: 4 * MAX_CHILDREN]:
            content = past.last_content(name) or {}
            if any(text_at(owner, "uid") == uid for owner in maps_at(content, "metadata", "ownerReferences")):
                yield name
                count += 1
                if count == MAX_CHILDREN:
                    break


def _symptoms(past: Past, found: Breakage, after: int, refused: Sequence[Document]) -> list[Symptom]:
    since = past.time_of(after) - _SLACK
    first = past.offset_at(since) if after else 0
    symptoms: dict[tuple[str, str], Symptom] = {}
    for one in found.family:
        for symptom in (*_of_status(past, one, first), *_of_events(past, one, first)):
            symptoms.setdefault((symptom.reason, symptom.message), symptom)
    for symptom in _of_refused(past, found.family, since, refused):
        symptoms.setdefault((symptom.reason, symptom.message), symptom)
    return sorted(symptoms.values(), key=lambda one: (one.version, one.of, one.reason))


_NEGATIVE: Final = re.compile(
    "Fail|Pressure|Unavailable|Degraded|Stalled|Error|DeletionContent|Remaining|Disrupt"
)
_USUAL: Final = frozenset(
    ("", "ContainerCreating", "PodInitializing", "Completed", "ContainersNotReady", "PodCompleted")
)


def _of_status(past: Past, one: Name, after: int) -> Iterator[Symptom]:
    """What the versions of a failure say in conditions and states of containers, oldest first."""
    events = past.events(one, after, past.upto, 40)
    for event in reversed(events):
        if event.removed:
            continue
        content = past.parsed(event)
        for source, reason, message in (*_conditions(content), *_containers(content)):
            yield Symptom(one, event.offset, event.time, reason, message[:_MESSAGE], source)


def _conditions(content: Document) -> Iterator[tuple[str, str, str]]:
    for condition in maps_at(content, "status", "conditions")[:50]:
        name, status = text_at(condition, "type"), text_at(condition, "status")
        reason, message = text_at(condition, "reason"), text_at(condition, "message")
        bad = status == ("True" if _NEGATIVE.search(name) else "False") or status == "Unknown"
        if bad and reason not in _USUAL:
            yield "condition", reason or f"{name} is {status}", message
    if text_at(content, "status", "reason"):
        yield "condition", text_at(content, "status", "reason"), text_at(content, "status", "message")


def _containers(content: Document) -> Iterator[tuple[str, str, str]]:
    status = map_at(content, "status")
    for field_ in ("initContainerStatuses", "containerStatuses"):
        for container in maps_at(status, field_)[:50]:
            for state in ("state", "lastState"):
                waiting = map_at(container, state, "waiting")
                if text_at(waiting, "reason") not in _USUAL:
                    yield "container", text_at(waiting, "reason"), text_at(waiting, "message")
                ended = map_at(container, state, "terminated")
                if ended.get("exitCode") not in (None, 0):
                    reason = text_at(ended, "reason") or "Error"
                    code = f"exit code {ended['exitCode']}"
                    yield "container", reason, text_at(ended, "message") or code


def _of_events(past: Past, one: Name, after: int) -> Iterator[Symptom]:
    """The Warning Events about an object, oldest first. Clients name them after the object."""
    namespace = one.namespace or "default"
    found: list[Symptom] = []
    for name in past.names("events", namespace, f"{one.name}.", most=MAX_EVENTS):
        event = past.newest(name)
        if event is None or event.offset <= after:
            continue
        content = past.parsed(event)
        about = map_at(content, "involvedObject") or map_at(content, "regarding")
        type_ = past.type_of_kind(text_at(about, "apiVersion"), text_at(about, "kind"))
        reason = text_at(content, "reason")
        warns = text_at(content, "type") == "Warning" or reason in _TELLING
        if type_ not in ("", one.type) or not warns:
            continue
        message = text_at(content, "message") or text_at(content, "note")
        first = next(iter(past.events(name, 0, past.upto, 100)[::-1]), event)
        began = first if first.offset > after else event
        found.append(Symptom(one, began.offset, began.time, reason, message[:_MESSAGE], "Event"))
    yield from sorted(found, key=lambda symptom: symptom.version)


# Events of type Normal that explain why an object went away.
_TELLING: Final = frozenset(
    ("Preempted", "TaintManagerEviction", "Evicted", "NodeNotReady", "NodeNotSchedulable")
)


def _of_refused(
    past: Past, family: Iterable[Name], since: int, refused: Sequence[Document]
) -> Iterator[Symptom]:
    """The first of each refused request that is about the object and its family, or that its account sent."""
    members = list(family)
    users = tuple(f":serviceaccount:{where}:{name}" for where, name in accounts_of(past, members))
    upto = past.time_of(past.upto)
    seen: set[tuple[Any, ...]] = set()
    for one in refused:
        if not since <= one["time"] <= upto or one.get("conflict"):
            continue
        of = _about(one, members) or (members[0] if users and one["user"].endswith(users) else None)
        key = (one["user"], one["verb"], one["type"], one["code"], one["name"])
        if of is None or key in seen or not past.shows_refused(short(one["type"]), one["namespace"]):
            continue
        seen.add(key)
        version = past.offset_at(one["time"])
        reason = f"refused {one['verb']} of {one['type']} {one['name']} ({one['code']})"
        yield Symptom(of, version, one["time"], reason, str(one["message"])[:_MESSAGE], "refused request")


def _about(one: Document, family: list[Name]) -> Name | None:
    """The object of the family that a refused request is about: itself, or a dependent that was not created."""
    type_ = short(one["type"])
    for member in family:
        if member.namespace != one["namespace"]:
            continue
        if type_ == member.type and one["name"] == member.name:
            return member
        dependent = type_ in CHILDREN.get(member.type, ()) and one["name"].startswith(f"{member.name}-")
        if dependent:
            return member
    return None


def accounts_of(past: Past, family: Iterable[Name]) -> list[tuple[str, str]]:
    """Namespace and name of the accounts that the pods of a family run as."""
    found: dict[tuple[str, str], None] = {}
    for one in family:
        spec = map_at(template_of(one.type, past.last_content(one) or {}), "spec")
        if spec:
            found[one.namespace, text_at(spec, "serviceAccountName") or "default"] = None
    return list(found)
