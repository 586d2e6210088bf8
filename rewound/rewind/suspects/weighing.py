"""How much a change explains a failure: a number, and the reasons for it in words.

The weight is a product: the kind of effect, the distance in the graph of references, the time before the failure, how
rare the change is, who made it, and whether the words of the failure name the object, the changed field or the value.
There is no model: the same journal gives the same order, and each factor that says something is a reason.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from rewound.actors.rewind.difference import ABSENT, MANAGED_FIELDS, RESOURCE_VERSION, difference
from rewound.actors.rewind.difference import Change as FieldChange
from rewound.rewind.suspects.breaking import SECOND, Breakage
from rewound.rewind.suspects.past import Change, Document, Name
from rewound.rewind.suspects.references import WORKLOADS, map_at, maps_at

MAX_FIELDS: Final = 200  # changed fields of one event
FOUGHT: Final = 4  # changes of one field by several authors in turn
_MINUTE: Final = 60 * SECOND

_NOISE: Final = RESOURCE_VERSION | {MANAGED_FIELDS, "metadata.generation", "metadata.selfLink"}
_DERIVED: Final = re.compile(
    r"(observedGeneration|lastTransitionTime|lastUpdateTime|lastProbeTime|lastHeartbeatTime|renewTime|restartCount)$"
    r"|^metadata\.annotations\[\"(kubectl\.kubernetes\.io/last-applied|deployment\.[^/]*/|pv\.|control-plane\.)"
    r"|^metadata\.(annotations|labels)$"
)
# Parts of a status that others depend on.
_TELLING_STATUS: Final = {
    "nodes": re.compile(r"^status\.(conditions.*\.status$|allocatable|capacity)"),
    "persistentvolumes": re.compile(r"^status\.phase"),
    "persistentvolumeclaims": re.compile(r"^status\.phase"),
    "namespaces": re.compile(r"^status\.phase"),
    "customresourcedefinitions.apiextensions": re.compile(r"^status\.conditions.*\.status$"),
}
# Kinds that others need: their deletion breaks something, their creation does not.
_NEEDED: Final = frozenset(
    (
        "configmaps",
        "secrets",
        "serviceaccounts",
        "persistentvolumeclaims",
        "persistentvolumes",
        "storageclasses.storage",
        "nodes",
        "namespaces",
        "services",
        "priorityclasses.scheduling",
        "runtimeclasses.node",
        "ingressclasses.networking",
        "customresourcedefinitions.apiextensions",
        "roles.rbac",
        "rolebindings.rbac",
        "clusterroles.rbac",
        "clusterrolebindings.rbac",
    )
)
# Kinds that refuse or limit: their creation breaks something, their deletion rarely does.
_LIMITING: Final = frozenset(
    (
        "resourcequotas",
        "limitranges",
        "networkpolicies.networking",
        "poddisruptionbudgets.policy",
        "horizontalpodautoscalers.autoscaling",
        "mutatingwebhookconfigurations.admissionregistration",
        "validatingwebhookconfigurations.admissionregistration",
        "validatingadmissionpolicies.admissionregistration",
        "mutatingadmissionpolicies.admissionregistration",
        "validatingadmissionpolicybindings.admissionregistration",
        "mutatingadmissionpolicybindings.admissionregistration",
    )
)
_HOOKS: Final = tuple(sorted(one for one in _LIMITING if "webhook" in one))
_POLICIES: Final = tuple(sorted(one for one in _LIMITING if "admissionpolic" in one))
_ROLES: Final = ("roles.rbac", "rolebindings.rbac", "clusterroles.rbac", "clusterrolebindings.rbac")
_VOLUMES: Final = ("persistentvolumeclaims", "persistentvolumes", "storageclasses.storage")


class Topic(NamedTuple):
    """What a failure with such words is about."""

    words: re.Pattern[str]
    fields: re.Pattern[str]
    types: tuple[str, ...]
    text: str


def _topic(words: str, fields: str, text: str, *types: str) -> Topic:
    return Topic(re.compile(words), re.compile(fields), types, text)


TOPICS: Final = (
    _topic(
        "Insufficient |Too many pods|OutOf(cpu|memory|pods)",
        r"resources|allocatable|capacity|replicas|unschedulable|overhead",
        "room on nodes",
        "nodes",
    ),
    _topic("untolerated taint", r"taints|tolerations", "taints", "nodes"),
    _topic(
        "node affinity|node selector|NodeAffinity",
        r"nodeSelector|[aA]ffinity|^metadata\.labels",
        "labels of nodes",
        "nodes",
    ),
    _topic(
        r"were unschedulable|NodeNotSchedulable|SchedulingDisabled",
        r"unschedulable",
        "cordoned nodes",
        "nodes",
    ),
    _topic("topology spread", r"topologySpreadConstraints|^metadata\.labels", "topology spread", "nodes"),
    _topic("pod (anti-)?affinity rules", r"[aA]ffinity|labels", "pod affinity"),
    _topic(
        "[Pp]ersistent[Vv]olume|[Ss]torage[Cc]lass|[Pp]rovision",
        r"volumes|storageClassName|volumeName|accessModes|^deleted",
        "volumes",
        *_VOLUMES,
    ),
    _topic(
        "ErrImagePull|ImagePullBackOff|InvalidImageName|pull(ing)? image",
        r"\.image$|imagePullSecrets|^data",
        "images",
        "serviceaccounts",
    ),
    _topic(
        "FailedMount|CreateContainerConfigError|MountVolume|not found$",
        r"volumes|\.env|^data|^deleted",
        "what containers mount and read",
        "configmaps",
        "secrets",
    ),
    _topic("OOMKilled", r"limits|resources|^data", "memory limits", "limitranges"),
    _topic(
        "CrashLoopBackOff|exit code|BackoffLimitExceeded|back-off restarting",
        r"\.image$|command|args|\.env|^data|securityContext|livenessProbe|startupProbe",
        "programs that end",
        "configmaps",
        "secrets",
    ),
    _topic("Unhealthy|[pP]robe failed", r"Probe|ports?\b|^data", "probes"),
    _topic("exceeded quota", r"hard|replicas|resources", "quota", "resourcequotas"),
    _topic(
        "(maximum|minimum) .* usage per|limit to request ratio", r"limits|resources", "limits", "limitranges"
    ),
    _topic(
        "admission webhook|calling webhook", r"webhooks|rules|failurePolicy", "admission webhooks", *_HOOKS
    ),
    _topic("AdmissionPolicy", r"validations|matchConstraints|spec", "admission policies", *_POLICIES),
    _topic(
        "PodSecurity", r"^metadata\.labels|securityContext|hostPath|privileged", "Pod Security", "namespaces"
    ),
    _topic("service ?account", r"serviceAccountName|^deleted", "the account", "serviceaccounts"),
    _topic(
        "PriorityClass|Preempted|PreemptionByScheduler|preempting",
        r"priority|preemption|replicas",
        "priority",
        "priorityclasses.scheduling",
    ),
    _topic(
        r"cannot (get|list|watch|create|update|patch|delete)|\(403\)|orbidden: User",
        r"rules|subjects|roleRef|serviceAccountName|^deleted",
        "rights",
        *_ROLES,
    ),
    _topic(
        "TaintManagerEviction|NodeNotReady|NodeStatusUnknown|Node is not ready|deleting pod|PodGC|unreachable"
        "|NodeLost|not-ready",
        r"taints|conditions|^deleted",
        "its node",
        "nodes",
    ),
    _topic("Pressure|Evicted", r"conditions|limits|resources", "pressure on its node", "nodes"),
    _topic(
        "no ready endpoints|FailedToUpdateEndpoint", r"selector|labels|Probe|ports?\b|replicas", "endpoints"
    ),
    _topic(
        "FailedGet(Resource|Object|External|Pods)|FailedComputeMetrics|missing request for|FailedGetScale",
        r"resources|scaleTargetRef|metrics|^deleted",
        "metrics and the target",
        *sorted(WORKLOADS),
    ),
    _topic("DeadlineExceeded", r"activeDeadlineSeconds|progressDeadlineSeconds", "deadlines"),
    _topic("Suspended|suspend", r"suspend", "suspension"),
    _topic(
        "isruption budget|allows no disruption|DisruptionAllowed|Cannot evict",
        r"minAvailable|maxUnavailable|replicas|selector|matchLabels",
        "disruption budgets",
        "poddisruptionbudgets.policy",
    ),
    _topic(
        "Terminating|inalizer|ContentRemaining|deleted", r"finalizers|deletionTimestamp|^deleted", "deletion"
    ),
    _topic(
        "no matches for kind|could not find the requested resource|not.?served|[cC]onversion|schema",
        r"versions|schema|conversion|^deleted",
        "the definition of a kind",
        "customresourcedefinitions.apiextensions",
    ),
    _topic(
        "RuntimeClass|FailedCreatePodSandBox",
        r"runtimeClassName|handler|^deleted",
        "runtimes",
        "runtimeclasses.node",
    ),
    _topic("host port|free ports|port is already allocated", r"hostPort|nodePort|ports", "ports"),
)
# How an API server begins what it says of a value: `spec.containers[0].image: Invalid value: ...`.
_NAMED_FIELD: Final = re.compile(
    r"(?<![\w.\]])([a-z]\w*(?:\.\w+|\[[^\]]*\])*): (?:Invalid|Required|Unsupported|Duplicate|Forbidden|Not found|Too )"
)
_PLATFORM: Final = re.compile(r"^system:(?!serviceaccount:)|:serviceaccount:(kube|cluster)-system:")
# Their field managers, in recordings that have no authors.
_PLATFORM_MANAGER: Final = re.compile(r"(kube-|cloud-)?(controller-manager|scheduler)|kubelet")


@dataclass(slots=True)
class Candidate:
    """A change, or a request that was refused, that may explain the failure."""

    of: Name
    distance: float
    relation: str
    version: int
    time: int
    user: str  # empty: not shown
    manager: str
    verb: str
    action: str  # created, deleted, changed, refused, fought over
    fields: list[FieldChange] = field(default_factory=list)
    competes: bool = False  # it takes what the broken object lacks
    follows: bool = False  # a controller made it from another change
    rarity: int = 0  # other changes of the same fields before
    message: str = ""  # of a refused request, or about a fight
    weight: float = 0.0
    reasons: list[str] = field(default_factory=list)


def fields_of(change: Change) -> list[FieldChange]:
    """The fields that a change touched, without those that follow from others; empty for one of no interest."""
    if change.before is None or change.after is None:
        return []
    telling = _TELLING_STATUS.get(change.of.type)
    found = []
    for one in difference(change.before, change.after, _NOISE, most=MAX_FIELDS):
        path = one.path
        if path.startswith("status"):
            if telling is not None and telling.search(path):
                found.append(one)
        elif change.of.type == "pods" and path == "spec.nodeName":
            continue  # the scheduler binds every pod once
        elif not _DERIVED.search(path) or path in ("metadata.annotations", "metadata.labels"):
            found.append(one)
    return found


def follows(change: Change, user: str, manager: str) -> bool:
    """Whether a controller made a change, from another one: by its owner, or by its author, who may not be known."""
    if change.of.type in ("nodes", "persistentvolumes"):
        return False
    if change.event.previous == 0 and change.after is not None:
        owners = maps_at(change.after, "metadata", "ownerReferences")
        if any(owner.get("controller") is True for owner in owners):
            return True
    return bool(_PLATFORM.search(user) or _PLATFORM_MANAGER.fullmatch(manager))


def action_of(change: Change, fields: Sequence[FieldChange]) -> str:
    """What happened; empty for a change of no interest."""
    if change.after is None:
        return "deleted"
    if change.event.previous == 0:
        return "created"
    if any(one.path == "metadata.deletionTimestamp" for one in fields):
        return "deleted"
    return "changed" if fields else ""


class Words(NamedTuple):
    """What the words of a failure are about."""

    text: str  # all of them
    topics: tuple[Topic, ...]
    fields: tuple[tuple[str, ...], ...]  # that an API server named, by their parts
    own: frozenset[str]  # names that any message about the object has: they point to nothing


def words_of(breakage: Breakage) -> Words:
    texts = [breakage.words, *(one.text for one in breakage.symptoms)]
    topics = tuple(topic for topic in TOPICS if any(map(topic.words.search, texts)))
    named = dict.fromkeys(_parts(found) for one in texts for found in _NAMED_FIELD.findall(one))
    own = frozenset(name for one in breakage.family for name in (one.name, one.namespace))
    return Words("\n".join(texts), topics, tuple(named), own)


def _parts(path: str) -> tuple[str, ...]:
    """The names of a path, without indexes and keys of items."""
    return tuple(re.findall(r"\w+", re.sub(r"\[[^\]]*\]", "", path)))


def weigh(one: Candidate, breakage: Breakage, words: Words) -> None:
    """Set the weight of a candidate and its reasons."""
    reasons = one.reasons
    weight = _effect(one, breakage)
    weight *= 1 / (1 + 0.35 * one.distance)
    weight *= _recency(one, breakage)
    if one.rarity and one.action != "fought over":
        weight *= 1 / (1 + one.rarity / 2)
        reasons.append(f"but the same fields changed {one.rarity} other times in this time")
    elif one.action == "changed":
        reasons.append("a rare change: nothing else changed these fields in this time")
    if one.follows:
        weight *= 0.35
    weight *= _words(one, words)
    one.weight = weight


def _effect(one: Candidate, breakage: Breakage) -> float:
    if one.action == "refused":
        return 0.9
    if one.action == "fought over":
        return 1.6
    if one.action == "deleted" and one.distance == 0 and breakage.words == "Terminating":
        return 0.2  # what keeps it from going away is later, or elsewhere
    if one.action == "changed" and one.of.type == "nodes" and all(map(_mends, one.fields)):
        return 0.1
    if one.competes:
        takes_more = any("replicas" in change.path or "template" in change.path for change in one.fields)
        return {"created": 0.8, "deleted": 0.05}.get(one.action, 0.6 if takes_more else 0.05)
    if one.of.type in _NEEDED:
        return {"deleted": 1.0, "created": 0.1}.get(one.action, 0.6 * _share(one))
    if one.of.type in _LIMITING:
        return {"deleted": 0.15, "created": 0.8}.get(one.action, 0.8 * _share(one))
    return {"deleted": 0.9, "created": 0.35}.get(one.action, _share(one))


def _mends(change: FieldChange) -> bool:
    """Whether a change of a node makes it better: a taint goes, a condition becomes good."""
    if change.path.startswith(("spec.taints", "spec.unschedulable")):
        before, after = (len(one) if isinstance(one, list) else 0 for one in (change.before, change.after))
        return bool(after < before or change.after is ABSENT)
    if "type=Ready" in change.path:
        return bool(change.after == "True")
    return "Pressure" in change.path and bool(change.after == "False")


def _share(one: Candidate) -> float:
    """How much of a workload its changed fields decide about."""
    paths = [change.path for change in one.fields]
    if all(path.startswith("metadata.annotations") for path in paths):
        return 0.2
    if all("metadata.annotations" in path for path in paths):
        return 0.3  # of its template: the same pods once more, such as after `kubectl rollout restart`
    if all(path.startswith("metadata.labels") for path in paths):
        return 0.4
    if all(path == "spec.replicas" for path in paths):
        return 0.5
    return 1.0


def _recency(one: Candidate, breakage: Breakage) -> float:
    before = breakage.time - one.time
    minutes = max(0, before) / _MINUTE
    when = "right before" if before < _MINUTE else f"{_span(minutes)} before"
    one.reasons.append(f"{when} it broke" if before >= 0 else "while it was failing already")
    return (1.0 if before >= 0 else 0.8) / (1 + math.log1p(minutes / 5))


def _span(minutes: float) -> str:
    if minutes < 120:
        return f"{minutes:.0f} minutes"
    return f"{minutes / 60:.0f} hours" if minutes < 48 * 60 else f"{minutes / 1440:.0f} days"


def _words(one: Candidate, words: Words) -> float:
    """Whether the words of the failure point to the change."""
    factor, text, topics = 1.0, words.text, words.topics
    if one.action == "refused":
        return 2.0 if one.message in text else 1.0  # the words are those of its refusal
    if one.distance > 0 and mentions(text, one.of.name):
        factor *= 3.0
        one.reasons.append("the messages name it")
    value = next((one for one in _values(one) if one not in words.own and mentions(text, one)), "")
    if value:
        factor *= 2.0
        one.reasons.append(f"the messages contain its value {value[:60]}")
    named = next(
        (field for field in words.fields if any(_is_about(field, change) for change in one.fields)), ()
    )
    if named:
        factor *= 2.0
        one.reasons.append(f"the messages name the field {'.'.join(named)}, which it changes")
    paths = [change.path for change in one.fields] or [one.action]
    of_fields = next((topic for topic in topics if any(map(topic.fields.search, paths))), None)
    of_type = next((topic for topic in topics if one.of.type in topic.types), None)
    if of_fields is not None:
        factor *= 2.0
        one.reasons.append(f"the messages are about {of_fields.text}, which it changes")
    if of_type is not None:
        factor *= 1.8
        if of_fields is not of_type:
            one.reasons.append(f"the messages are about {of_type.text}")
    if one.competes and "priority" in one.relation:
        factor *= 2.0
        one.reasons.append("the messages are about preemption")
    if (topics or words.fields) and factor == 1.0:
        factor = 0.5
    return factor


def _is_about(field: tuple[str, ...], change: FieldChange) -> bool:
    """Whether it changes a field, one around or below it, or what a schema says of a field of that name."""
    parts = _parts(change.path)
    shorter = min(len(parts), len(field))
    return field[:shorter] == parts[:shorter] or field[-1] in parts


def mentions(text: str, name: str) -> bool:
    """Whether a text has a name as a word of its own."""
    if len(name) < 3:
        return False
    at = text.find(name)
    while at >= 0:
        around = text[at - 1 : at] + text[at + len(name) : at + len(name) + 1]
        if not any(char.isalnum() or char == "-" for char in around):
            return True
        at = text.find(name, at + 1)
    return False


_PLAIN: Final = frozenset(
    ("true", "false", "null", "none", "default", "pod", "pods", "node", "nodes", "the", "not")
)


def _values(one: Candidate) -> Iterable[str]:
    if one.of.type == "secrets":
        return
    for change in one.fields[:20]:
        for value in (change.after, change.before):
            yield from _texts(value, 3)


def _texts(value: Any, depth: int) -> Iterable[str]:
    if (
        isinstance(value, str)
        and 3 <= len(value) <= 300
        and value.lower() not in _PLAIN
        and not value.isdigit()
    ):
        yield value
    elif isinstance(value, dict) and depth:
        for item in list(value.values())[:20]:
            yield from _texts(item, depth - 1)
    elif isinstance(value, list) and depth:
        for item in value[:20]:
            yield from _texts(item, depth - 1)


# Several changes of one object.


def rarity_of(change: Change, earlier: Counter[str], fields: Sequence[FieldChange]) -> int:
    """How often its most often changed field changed besides this time. `earlier`: counts of all fields."""
    return max((earlier[one.path] - 1 for one in fields), default=0)


def fought_field(
    changes: Sequence[tuple[Change, Sequence[FieldChange]]],
) -> tuple[str, int, list[str]] | None:
    """The field that several authors set in turn: its path, the turns, and the authors. `changes`: newest first."""
    last: dict[str, str] = {}
    turns: Counter[str] = Counter()
    authors: dict[str, dict[str, None]] = {}
    values: dict[str, Counter[str]] = {}
    for change, fields in reversed(changes):
        author = " with ".join(filter(None, (change.event.user, change.event.manager)))
        for one in fields:
            if one.before is ABSENT or one.path.startswith("status"):
                continue
            turns[one.path] += last.get(one.path) != author
            last[one.path] = author
            authors.setdefault(one.path, {})[author] = None
            values.setdefault(one.path, Counter())[repr(one.after)[:200]] += 1
    fought = [path for path, count in turns.items() if count >= FOUGHT and 1 < len(authors[path]) < 5]
    # Two authors that set ever new values, such as a clock and a counter, do not fight.
    fought = [path for path in fought if max(values[path].values()) > 1]
    if not fought:
        return None
    worst = max(fought, key=lambda path: (turns[path], path))
    return worst, turns[worst], list(authors[worst])


def labels_of(content: Document) -> dict[str, str]:
    found = map_at(content, "metadata", "labels")
    return {key: value for key, value in found.items() if isinstance(value, str)}
