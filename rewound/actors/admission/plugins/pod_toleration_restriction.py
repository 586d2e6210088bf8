"""PodTolerationRestriction: a pod gets the default tolerations of its namespace, and may have only allowed ones.

Both lists are in annotations of the namespace; without them, those of the configuration apply. Pods of other QoS
classes than BestEffort also tolerate memory pressure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from rewound.actors.admission.caches import NamespaceAnnotations
from rewound.actors.admission.configuration import PluginConfiguration
from rewound.actors.admission.plugin import Plugin, forbidden, rule
from rewound.actors.admission.plugins.tolerations import covers, merged
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.kinds.core.pod import qos_class
from rewound.actors.kinds.core.pod_spec import POD_SPEC, TOLERATION, toleration_rules
from rewound.actors.kinds.validation import collect
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal

PODS: Final = Resource("", "pods")
_TYPES: Final[dict[str, type]] = {
    "key": str,
    "operator": str,
    "value": str,
    "effect": str,
    "tolerationSeconds": int,
}


@dataclass(frozen=True, slots=True)
class Tolerations:
    """The lists of a namespace. None: the list of the cluster applies."""

    default: Sequence[Object] | None = None
    allowed: Sequence[Object] | None = None


class PodTolerationRestriction(Plugin):
    name = "PodTolerationRestriction"
    mutates = validates = (rule(CREATE, UPDATE, of=(PODS,)),)

    def __init__(self, names: Names, journal: Journal, feed: Feed, cluster: Tolerations) -> None:
        self._default_key = names.key("defaultTolerations", "scheduler.alpha")
        self._allowed_key = names.key("tolerationsWhitelist", "scheduler.alpha")
        self._memory_pressure = {
            "key": names.key("memory-pressure", "node"),
            "operator": "Exists",
            "effect": "NoSchedule",
        }
        self._cluster = cluster
        self._namespaces = NamespaceAnnotations(journal, feed, self._parsed)

    def mutate(self, request: AdmissionRequest) -> Object | None:
        pod = request.object
        assert pod is not None
        own = pod["spec"].get("tolerations", [])
        added = self._added(pod, request)
        tolerations = merged(own, added) if added else own
        self._check(tolerations, request)
        if tolerations == own:
            return None
        return {**pod, "spec": POD_SPEC.arranged({**pod["spec"], "tolerations": tolerations})}

    def validate(self, request: AdmissionRequest) -> None:
        assert request.object is not None
        self._check(request.object["spec"].get("tolerations", []), request)

    def _added(self, pod: Object, request: AdmissionRequest) -> list[Object]:
        added: list[Object] = []
        if request.operation == CREATE:
            default = self._of_namespace(request).default
            added += (self._cluster.default or ()) if default is None else default
        if qos_class(pod["spec"]) != "BestEffort":
            added.append(self._memory_pressure)
        return added

    def _check(self, tolerations: Sequence[Object], request: AdmissionRequest) -> None:
        if not tolerations:
            return
        allowed, scope = self._of_namespace(request).allowed, "namespace"
        if allowed is None:
            allowed, scope = self._cluster.allowed, "cluster"
        if allowed and not all(any(covers(wide, one) for wide in allowed) for one in tolerations):
            merges = "possibly merged with namespace default tolerations"
            raise forbidden(request, f"pod tolerations ({merges}) conflict with its {scope} whitelist")

    def _of_namespace(self, request: AdmissionRequest) -> Tolerations:
        try:
            return self._namespaces.of(request.namespace)
        except ValueError as error:
            raise forbidden(request, f"the namespace has an invalid annotation: {error}") from None

    def _parsed(self, annotations: Mapping[str, str]) -> Tolerations:
        return Tolerations(
            _in_annotation(annotations, self._default_key), _in_annotation(annotations, self._allowed_key)
        )


def _in_annotation(annotations: Mapping[str, str], key: str) -> list[Object] | None:
    text = annotations.get(key)
    if text is None:
        return None
    try:
        return _parse_list(orjson.loads(text) if text else [], key)
    except orjson.JSONDecodeError:
        raise ValueError(f"{key}: is not JSON") from None


def _parse_list(value: object, field: str) -> list[Object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{field}: must be a list of tolerations")
    return [_parse_toleration(one, f"{field}[{index}]") for index, one in enumerate(value)]


def _parse_toleration(one: object, field: str) -> Object:
    if not isinstance(one, dict):
        raise ValueError(f"{field}: must be an object")
    parsed: Object = {}
    for part, wanted in _TYPES.items():
        value = one.get(part)
        if value is None or value == "":
            continue
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise ValueError(f"{field}.{part}: must be a {'number' if wanted is int else 'string'}")
        parsed[part] = value
    return TOLERATION.arranged(parsed)


def parse_tolerations(names: Names, given: PluginConfiguration | None) -> Tolerations:
    """The lists `default` and `whitelist` of the cluster."""
    if given is None:
        return Tolerations()
    given.check_type((f"{names.group('podtolerationrestriction.admission')}/v1alpha1", "Configuration"))
    given.check_fields("default", "whitelist")
    return Tolerations(_parse_configured(given, "default"), _parse_configured(given, "whitelist"))


def _parse_configured(given: PluginConfiguration, field: str) -> list[Object]:
    try:
        tolerations = _parse_list(given.document.get(field), field)
    except ValueError as error:
        raise given.error(field, str(error)) from None
    for wrong in collect(toleration_rules, tolerations, field):
        raise given.error(wrong.field, wrong.message)
    return tolerations
