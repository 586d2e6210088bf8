"""The pods that wait for a node, queued as in v1.25.

Active pods are tried by priority. Within a priority, namespaces take turns, each with its longest waiting pod. v1.25
ignores namespaces there: the pods of one that wants a million would keep all others waiting.

A pod without a feasible node becomes unschedulable, and stays so until something changes that may help: each plugin
names the changes that help the pods that it rejected. It is then tried again, but not before its backoff has passed,
which doubles with every attempt. After five minutes it is tried in any case.

Since v1.32 a change helps a pod only if a hint of such a plugin says so, also if it happened while the pod was tried;
before, any change meanwhile set it back.

A change is only recorded: `waking` finds the pods that it may help, in steps, before the next pod is tried. Until then
no pod becomes unschedulable, so it finds those that were when the change happened.

The queue also knows which pods are nominated to which node.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from rewound.actors.messages import Object
from rewound.actors.runtime.steps import Steps, parts_of
from rewound.actors.scheduler.explanation import ANSWERED
from rewound.actors.scheduler.pods import PodFacts

Key = tuple[str, str]  # namespace and name
Check = Callable[[PodFacts, frozenset[str]], bool]  # a pod, and the plugins that rejected it

INITIAL_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 10.0
LONGEST_UNSCHEDULABLE: Final = 300.0
_FEW_OUTDATED: Final = 64  # entries of a heap
_STEP: Final = 64  # pods that become active between two checks of the clock
_MOST_CHANGES: Final = 1000  # recorded changes; beyond this, all pods that a plugin rejected are tried again
_MOST_POPPED_EARLY: Final = (
    100  # pods that back off; more would keep the scheduler busy with what does not fit
)
_ACTIVE, _BACKOFF, _UNSCHEDULABLE, _IN_FLIGHT = "active", "backoff", "unschedulable", "in flight"


class QueuedPod:
    __slots__ = ("added", "attempts", "cycle", "errors", "facts", "plugins", "rejections", "since", "state")

    def __init__(self, facts: PodFacts, now: float) -> None:
        self.facts = facts
        self.added = now
        self.since = now  # when it was added, or last tried
        self.attempts = 0
        self.rejections = 0  # of them, by plugins
        self.errors = 0  # of them, since it was last rejected
        self.cycle = 0  # in which it was last tried
        self.plugins: frozenset[str] = frozenset()  # that rejected it
        self.state = ""

    @property
    def key(self) -> Key:
        return self.facts.namespace, self.facts.name


_Active = tuple[int, float, int, QueuedPod]  # negated priority, since when it waits, number
_Due = tuple[float, int, float, int, QueuedPod]  # when, then as _Active
_Place = tuple[int, int, int, str]  # negated priority of its first pod, round, number, namespace
_Noted = tuple[str, Check | None]  # a change, and which pods it may help; None: all
_Checks = Sequence[Check | None]


class SchedulingQueue:
    def __init__(
        self,
        now: Callable[[], float],
        wakes: Mapping[str, Collection[str]],
        initial_backoff: float = INITIAL_BACKOFF,
        longest_backoff: float = LONGEST_BACKOFF,
        *,
        has_hints: bool = False,
        pops_early: bool = False,
        counts_errors: bool = False,
    ) -> None:
        """`wakes`: the plugins that each kind of change may help; `pops_early`: an idle scheduler ignores backoff.

        `counts_errors`: errors have a backoff of their own, which ends with them.
        """
        self._now, self._wakes, self._has_hints, self._pops_early = now, wakes, has_hints, pops_early
        self._counts_errors = counts_errors
        # With hints, the changes since the first pod in flight was popped, and in which cycle.
        self._recent: deque[tuple[int, str, Check | None]] = deque(maxlen=_MOST_CHANGES)
        self._initial_backoff, self._longest_backoff = initial_backoff, longest_backoff
        self._pods: dict[Key, QueuedPod] = {}
        # All may have outdated entries: of pods that are gone or have changed their state.
        self._active: dict[str, list[_Active]] = {}  # by namespace
        self._entries = 0  # in all of these
        self._order: list[_Place] = []  # the namespaces
        self._places: dict[str, _Place] = {}  # the current entries
        self._round = 0
        self._due: list[_Due] = []
        # By the plugins that rejected them: a change helps all with the same plugins, or none.
        self._unschedulable: dict[frozenset[str], dict[Key, QueuedPod]] = {}
        self._seeking: dict[Key, QueuedPod] = {}  # those of them that must be near other pods
        self._changes: dict[_Noted, None] = {}  # in order: it decides which pods are tried first
        self._near: dict[_Noted, None] = {}  # changes for pods that must be near others
        self._counts = {_ACTIVE: 0, _BACKOFF: 0, _UNSCHEDULABLE: 0, _IN_FLIGHT: 0}
        self._number = self._cycle = 0
        self._moved_in = -1  # the cycle of the last change that may help
        self._nominated: dict[str, dict[str, PodFacts]] = {}  # by node and uid
        self._nominations: dict[str, str] = {}  # the node of each uid

    def counts(self) -> dict[str, int]:
        return {state: count for state, count in self._counts.items() if state != _IN_FLIGHT}

    def _become(self, queued: QueuedPod, state: str) -> None:
        """`state`: "" while it is not in the queue."""
        for one, change in ((queued.state, -1), (state, 1)):
            if one:
                self._counts[one] += change
        queued.state = state

    def add(self, facts: PodFacts) -> None:
        queued = QueuedPod(facts, self._now())
        old = self._pods.get(queued.key)
        if old is not None:
            self._leave(old)
            self._become(old, "")
        self._pods[queued.key] = queued
        self._activate(queued)
        self.nominate(facts, _nominated_node(facts.pod))

    def update(self, facts: PodFacts, changes: Sequence[_Noted] = ()) -> None:
        """A newer version of a waiting pod; with hints, `changes` are those of the pod itself."""
        queued = self._pods.get((facts.namespace, facts.name))
        if queued is None or queued.facts.uid != facts.uid:
            self.add(facts)
            return
        old, queued.facts = queued.facts, facts
        self._renominate(old, facts)
        if self._has_hints:
            self._update_by_hints(queued, changes, old.priority)
            return
        if not _differs(old.pod, facts.pod):
            return
        if queued.state == _UNSCHEDULABLE:
            self._retry(queued)
        elif queued.state == _IN_FLIGHT:
            self._moved_in = self._cycle
        elif queued.state == _ACTIVE and old.priority != facts.priority:
            self._activate(queued)

    def _update_by_hints(self, queued: QueuedPod, changes: Sequence[_Noted], old_priority: int) -> None:
        if queued.state == _UNSCHEDULABLE and any(self._helps_pod(queued, *one) for one in changes):
            self._retry(queued)
        elif queued.state == _IN_FLIGHT:
            self._recent.extend((self._cycle, *one) for one in changes)
        elif queued.state == _ACTIVE and old_priority != queued.facts.priority:
            self._activate(queued)

    def delete(self, facts: PodFacts) -> None:
        self.nominate(facts, "")
        queued = self._pods.get((facts.namespace, facts.name))
        if queued is not None and queued.facts.uid == facts.uid:
            self._leave(queued)
            self._become(queued, "")
            del self._pods[queued.key]

    def pop(self) -> QueuedPod | None:
        """The next pod to try; it is in flight until `add_unschedulable` or `delete`."""
        for _ in self.waking():
            pass
        if not self._counts[_IN_FLIGHT]:
            self._recent.clear()
        if not self._counts[_ACTIVE] and self._pops_early:
            self._end_first_backoff()
        while self._order:
            place = heapq.heappop(self._order)
            namespace = place[-1]
            if self._places.get(namespace) != place:
                continue
            del self._places[namespace]
            queued = self._first_active(namespace, place[0])
            if queued is not None:
                self._round = place[1]
                return self._popped(queued)
        return None

    def pop_named(self, key: Key) -> QueuedPod | None:
        """The pod of this name, even if it is not its turn; None if it is in flight, or not in the queue."""
        queued = self._pods.get(key)
        if queued is None or queued.state == _IN_FLIGHT:
            return None
        self._leave(queued)
        self._become(queued, _IN_FLIGHT)
        return self._popped(queued)

    def _popped(self, queued: QueuedPod) -> QueuedPod:
        queued.attempts += 1
        queued.plugins = frozenset()
        self._cycle += 1
        queued.cycle = self._cycle
        return queued

    def _first_active(self, namespace: str, priority: int) -> QueuedPod | None:
        """The next pod of a namespace, which then waits for its next turn if it has more.

        None if it has none of this (negated) priority, because the pod that it was placed for is gone: it then waits
        for its turn with the priority of its next pod.
        """
        entries, found = self._active[namespace], None
        self._drop_outdated(entries)
        if entries and entries[0][0] <= priority:
            found = heapq.heappop(entries)[3]
            self._entries -= 1
            self._become(found, _IN_FLIGHT)
            self._drop_outdated(entries)
        if entries:
            self._place(namespace, entries[0][0])
        else:
            del self._active[namespace]
        return found

    def _drop_outdated(self, entries: list[_Active]) -> None:
        while entries and not self._is_active(entries[0][3]):
            heapq.heappop(entries)
            self._entries -= 1

    def _place(self, namespace: str, priority: int) -> None:
        """Let a namespace wait for its turn among those whose first pod has this (negated) priority."""
        known = self._places.get(namespace)
        if known is not None and known[0] <= priority:
            return
        self._number += 1
        place = priority, self._round + 1, self._number, namespace
        self._places[namespace] = place
        heapq.heappush(self._order, place)

    def is_in_flight(self, queued: QueuedPod) -> bool:
        """Whether the pod has not been deleted or assigned since it was popped."""
        return queued.state == _IN_FLIGHT and self._pods.get(queued.key) is queued

    def next_due(self) -> float | None:
        """When the next pod becomes active by itself; None: never."""
        while self._due:
            if self._is_due(self._due[0]):
                return self._due[0][0]
            heapq.heappop(self._due)
        return None

    def add_unschedulable(
        self, queued: QueuedPod, plugins: frozenset[str], *, is_error: bool = False
    ) -> None:
        """Take back a pod that was tried; after an error, or if a change meanwhile may help, it is tried again soon."""
        if self._pods.get(queued.key) is not queued:
            return
        queued.since, queued.plugins = self._now(), plugins
        if plugins:
            queued.rejections, queued.errors = queued.rejections + 1, 0
        else:
            queued.errors += 1
        if self._was_helped(queued) or (is_error and self._has_hints):
            self._set_back(queued)
        else:
            self._become(queued, _UNSCHEDULABLE)
            self._unschedulable.setdefault(plugins, {})[queued.key] = queued
            if queued.facts.shape.follows:
                self._seeking[queued.key] = queued
            self._schedule(queued)
        if queued.facts.uid not in self._nominations:
            self.nominate(queued.facts, _nominated_node(queued.facts.pod))

    def _was_helped(self, queued: QueuedPod) -> bool:
        """Whether a change since the pod was popped may help it."""
        if not self._has_hints:
            return self._moved_in >= self._cycle
        if len(self._recent) == _MOST_CHANGES and self._recent[0][0] >= queued.cycle:
            return True  # some are forgotten
        return any(
            cycle >= queued.cycle and self._helps_pod(queued, change, check)
            for cycle, change, check in self._recent
        )

    def _helps_pod(self, queued: QueuedPod, change: str, check: Check | None) -> bool:
        if not self._helps(change, queued.plugins):
            return False
        return check is None or check(queued.facts, queued.plugins)

    def note_change(self) -> None:
        """Something changes during the current decision that may help the pod: it is tried again soon."""
        self._moved_in = self._cycle

    def move(self, change: str, check: Check | None = None) -> bool:
        """Try the unschedulable pods again that this change may help; returns whether there may be any."""
        self._moved_in = self._cycle
        if self._has_hints and self._counts[_IN_FLIGHT]:
            self._recent.append((self._cycle, change, check))
        if not any(self._helps(change, plugins) for plugins in self._unschedulable):
            return False
        self._note(self._changes, change, check)
        return True

    def move_if_near(self, change: str, selects: Check) -> bool:
        """The same for a running pod: it helps those whose affinity it satisfies."""
        self._moved_in = self._cycle
        if not self._seeking:
            return False
        self._note(self._near, change, selects)
        return True

    def _note(self, changes: dict[_Noted, None], change: str, check: Check | None) -> None:
        if len(changes) >= _MOST_CHANGES:
            kinds: dict[_Noted, None] = {(one, None): None for one, _ in changes}
            changes.clear()
            changes.update(kinds)
        changes[change, check] = None

    def waking(self) -> Steps[None]:
        """Activate the pods that are due or that a change may help, or let them wait for their backoff."""
        while self._changes or self._near:
            changes, self._changes = self._changes, {}
            near, self._near = self._near, {}
            groups = tuple(self._unschedulable.items())
            for plugins, pods in groups:
                if checks := self._checks_of(plugins, changes):
                    yield from self._wake(pods.values(), {plugins: checks})
            if near:
                by_plugins = {plugins: self._checks_of(plugins, near) for plugins, _ in groups}
                yield from self._wake(self._seeking.values(), by_plugins)
        yield from self._wake_due()

    def _checks_of(self, plugins: frozenset[str], changes: dict[_Noted, None]) -> _Checks:
        """The changes that may help pods which these plugins rejected."""
        return [check for change, check in changes if self._helps(change, plugins)]

    def _wake(self, pods: Iterable[QueuedPod], by_plugins: Mapping[frozenset[str], _Checks]) -> Steps[None]:
        for part in parts_of(pods, _STEP):
            for queued in part:
                for checks in parts_of(by_plugins.get(queued.plugins, ()), _STEP):
                    if queued.state != _UNSCHEDULABLE:
                        break  # it has changed or is gone, or another change helps it
                    if any(check is None or check(queued.facts, queued.plugins) for check in checks):
                        self._retry(queued)
                    elif len(checks) == _STEP:
                        yield
            yield

    def _helps(self, change: str, plugins: frozenset[str]) -> bool:
        return not plugins or not plugins.isdisjoint(self._wakes.get(change, ()))

    def _retry(self, queued: QueuedPod) -> None:
        self._leave(queued)
        if self._has_hints and not queued.plugins:
            # There were no nodes: kube-scheduler tries such a pod again and again, at the latest after its backoff.
            queued.since = self._now()
        if self._backoff_end(queued) > self._now():
            self._set_back(queued)
        else:
            self._activate(queued)

    def _activate(self, queued: QueuedPod) -> None:
        self._become(queued, _ACTIVE)
        self._number += 1
        namespace, priority = queued.facts.namespace, -queued.facts.priority
        entries = self._active.setdefault(namespace, [])
        heapq.heappush(entries, (priority, queued.since, self._number, queued))
        self._entries += 1
        self._place(namespace, priority)
        if self._has_outdated(self._entries):
            self._clear_active()

    def _clear_active(self) -> None:
        """Keep the first entry of each pod: later ones are outdated as soon as that one is popped."""
        self._entries = 0
        for namespace, entries in tuple(self._active.items()):
            firsts: dict[Key, _Active] = {}
            for entry in sorted(entries):
                if self._is_active(entry[3]):
                    firsts.setdefault(entry[3].key, entry)
            self._active[namespace] = list(firsts.values())  # sorted, so a heap
            self._entries += len(firsts)
            if not firsts:
                del self._active[namespace]
                self._places.pop(namespace, None)
        self._order = sorted(self._places.values())

    def _set_back(self, queued: QueuedPod) -> None:
        self._become(queued, _BACKOFF)
        self._schedule(queued)

    def _schedule(self, queued: QueuedPod) -> None:
        self._number += 1
        place = -queued.facts.priority, queued.since, self._number
        heapq.heappush(self._due, (self._due_time(queued), *place, queued))
        if self._has_outdated(len(self._due)):
            self._due = [entry for entry in self._due if self._is_due(entry)]
            heapq.heapify(self._due)

    def _has_outdated(self, entries: int) -> bool:
        """Whether so many entries of a heap are outdated that clearing them is worthwhile."""
        return entries > 2 * len(self._pods) + _FEW_OUTDATED

    def _is_active(self, queued: QueuedPod) -> bool:
        return queued.state == _ACTIVE and self._pods.get(queued.key) is queued

    def _is_due(self, entry: _Due) -> bool:
        due, queued = entry[0], entry[-1]
        return self._pods.get(queued.key) is queued and self._due_time(queued) == due

    def _wake_due(self) -> Steps[None]:
        looked = 0
        while self._due:
            is_due = self._is_due(self._due[0])
            if is_due and self._due[0][0] > self._now():
                return
            queued = heapq.heappop(self._due)[-1]
            if is_due:
                self._leave(queued)
                self._activate(queued)
            looked += 1
            if (
                looked % _STEP == 0
            ):  # outdated entries count too: after a change that helps many, there are as many
                yield

    def _end_first_backoff(self) -> None:
        """Let the first pod that backs off be tried at once, unless an error or too many others would cost much."""
        if not 0 < self._counts[_BACKOFF] <= _MOST_POPPED_EARLY:
            return
        while self._due and not self._is_due(self._due[0]):
            heapq.heappop(self._due)
        queued = self._due[0][-1] if self._due else None
        if queued is not None and queued.state == _BACKOFF and queued.plugins:
            heapq.heappop(self._due)
            self._activate(queued)

    def _due_time(self, queued: QueuedPod) -> float:
        if queued.state == _BACKOFF:
            return self._backoff_end(queued)
        return queued.since + LONGEST_UNSCHEDULABLE if queued.state == _UNSCHEDULABLE else -1.0

    def _backoff_end(self, queued: QueuedPod) -> float:
        count = queued.attempts
        if self._counts_errors:
            count = queued.errors or queued.rejections
            if not count:
                return queued.since  # it was never tried
        # Limit the exponent before taking the power: attempts may continue for years.
        doubled = self._initial_backoff * 2.0 ** min(max(count - 1, 0), 32)
        end = queued.since + min(doubled, self._longest_backoff)
        if not self._pops_early or not self._longest_backoff:
            return end
        return math.floor(end) + 1.0  # those that end in the same second end together, the first by priority

    def _leave(self, queued: QueuedPod) -> None:
        pods = self._unschedulable.get(queued.plugins, {})
        pods.pop(queued.key, None)
        if not pods:
            self._unschedulable.pop(queued.plugins, None)
        self._seeking.pop(queued.key, None)

    def nominate(self, facts: PodFacts, node: str) -> None:
        """Nominate the pod to this node; "": to none."""
        before = self._nominations.pop(facts.uid, None)
        if before is not None:
            del self._nominated[before][facts.uid]
            if not self._nominated[before]:
                del self._nominated[before]
        if node:
            self._nominations[facts.uid] = node
            self._nominated.setdefault(node, {})[facts.uid] = facts

    def _renominate(self, old: PodFacts, new: PodFacts) -> None:
        """A nomination that is not written yet survives other changes of the pod."""
        before, after = _nominated_node(old.pod), _nominated_node(new.pod)
        kept = self._nominations.get(old.uid, "") if not before and not after else after
        self.nominate(new, kept)

    @property
    def has_nominated(self) -> bool:
        return bool(self._nominated)

    def nominated(self, node: str) -> Collection[PodFacts]:
        return self._nominated.get(node, {}).values()


def _nominated_node(pod: Object) -> str:
    name: str = pod.get("status", {}).get("nominatedNodeName", "")
    return name


_IGNORED: Final = ("resourceVersion", "generation", "managedFields", "finalizers")


def _differs(old: Object, new: Object) -> bool:
    """Whether anything relevant has changed: not the status."""
    return bool(old["spec"] != new["spec"] or _metadata(old) != _metadata(new))


def _metadata(pod: Object) -> Object:
    kept = {name: value for name, value in pod["metadata"].items() if name not in _IGNORED}
    annotations = kept.get("annotations", {})
    if ANSWERED in annotations:  # written by this scheduler itself
        kept["annotations"] = {name: value for name, value in annotations.items() if name != ANSWERED}
    return kept
