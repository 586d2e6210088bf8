"""PodNodeSelector: merges the node selector of its namespace into a new pod, and rejects a pod that contradicts it.

The namespace has its selector in an annotation; without it, the cluster default of the configuration applies. The
configuration may also list, per namespace, the only labels that pods there may select nodes by.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rewound.actors.admission.caches import NamespaceAnnotations
from rewound.actors.admission.configuration import PluginConfiguration
from rewound.actors.admission.plugin import Plugin, forbidden, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from rewound.actors.kinds.core.pod_spec import POD_SPEC
from rewound.actors.kinds.validation import label_value, qualified_name
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal

PODS: Final = Resource("", "pods")
CONFIGURATION: Final = "podNodeSelectorPluginConfig"
CLUSTER_DEFAULT: Final = "clusterDefaultNodeSelector"
Selector = dict[str, str]
Selectors = Mapping[str, Selector]  # by namespace, and the cluster default


class PodNodeSelector(Plugin):
    name = "PodNodeSelector"
    mutates = validates = (rule(CREATE, of=(PODS,)),)

    def __init__(self, names: Names, journal: Journal, feed: Feed, configured: Selectors) -> None:
        self._key = names.key("node-selector", "scheduler.alpha")
        self._configured = configured
        self._selectors = NamespaceAnnotations(journal, feed, self._parsed)

    def mutate(self, request: AdmissionRequest) -> Object | None:
        self.validate(request, merging=True)
        pod = request.object
        assert pod is not None
        wanted, own = self._selector(request), pod["spec"].get("nodeSelector") or {}
        if wanted.items() <= own.items():
            return None
        merged = dict(sorted({**wanted, **own}.items()))
        return {**pod, "spec": POD_SPEC.arranged({**pod["spec"], "nodeSelector": merged})}

    def validate(self, request: AdmissionRequest, *, merging: bool = False) -> None:
        pod = request.object
        assert pod is not None
        wanted, own = self._selector(request), pod["spec"].get("nodeSelector") or {}
        if any(own.get(key, value) != value for key, value in wanted.items()):
            raise _refused(pod, "pod node label selector conflicts with its namespace node label selector")
        allowed = self._configured.get(request.namespace)
        selected = {**wanted, **own} if merging else own
        if allowed and not selected.items() <= allowed.items():
            raise _refused(pod, "pod node label selector labels conflict with its namespace whitelist")

    def _selector(self, request: AdmissionRequest) -> Selector:
        try:
            return self._selectors.of(request.namespace)
        except ValueError as error:
            raise forbidden(request, f"{error} (annotation {self._key} of the namespace)") from None

    def _parsed(self, annotations: Mapping[str, str]) -> Selector:
        text = annotations.get(self._key)
        return self._configured.get(CLUSTER_DEFAULT, {}) if text is None else parse_selector(text)


def _refused(pod: Object, why: str) -> Forbidden:
    return Forbidden(PODS, pod["metadata"].get("name", ""), why)


def parse_selector(text: str) -> Selector:
    """The labels of `a=b, c=d`. Raises ValueError for anything else."""
    selector: Selector = {}
    for part in text.split(",") if text else ():
        sides = part.split("=")
        if len(sides) != 2:
            raise ValueError(f"invalid selector: [{' '.join(sides)}]")
        key, value = sides[0].strip(), sides[1].strip()
        if wrong := [*qualified_name(key), *label_value(value)]:
            raise ValueError(f"invalid selector: {part.strip()}: {'; '.join(wrong)}")
        selector[key] = value
    return selector


def parse_selectors(given: PluginConfiguration | None) -> Selectors:
    """`{"podNodeSelectorPluginConfig": {"clusterDefaultNodeSelector": "a=b", "namespace1": "c=d"}}`."""
    if given is None:
        return {}
    given.check_fields(CONFIGURATION)
    selectors = given.document.get(CONFIGURATION) or {}
    if not isinstance(selectors, dict):
        raise given.error(CONFIGURATION, "must be a mapping")
    return {name: _parse_configured(given, name, text) for name, text in selectors.items()}


def _parse_configured(given: PluginConfiguration, name: str, text: object) -> Selector:
    try:
        return parse_selector(str(text or ""))
    except ValueError as error:
        raise given.error(f"{CONFIGURATION}.{name}", str(error)) from None
