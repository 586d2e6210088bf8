"""DefaultIngressClass: a new ingress without a class gets the default class; if there are several, the newest."""

from __future__ import annotations

from rewound.actors.admission.caches import CachedObjects
from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.kinds.networking import INGRESS_SPEC
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal


class DefaultIngressClass(Plugin):
    name = "DefaultIngressClass"

    def __init__(self, names: Names, journal: Journal, feed: Feed) -> None:
        group = names.group("networking")
        self._class_key = names.key("ingress.class")
        self._default_key = names.key("is-default-class", "ingressclass")
        self._defaults = CachedObjects(Resource(group, "ingressclasses"), journal, feed, self._default)
        self.mutates = (rule(CREATE, of=(Resource(group, "ingresses"),)),)

    def mutate(self, request: AdmissionRequest) -> Object | None:
        ingress = request.object
        assert ingress is not None
        spec = ingress["spec"]
        if "ingressClassName" in spec or self._class_key in ingress["metadata"].get("annotations", {}):
            return None
        defaults = self._defaults.all()
        if not defaults:
            return None
        newest = max(defaults.values())
        name = min(name for name, created in defaults.items() if created == newest)
        return {**ingress, "spec": INGRESS_SPEC.arranged({**spec, "ingressClassName": name})}

    def _default(self, stored: Object) -> str | None:
        """The creation time of a default class; nothing is cached of the others."""
        metadata = stored["metadata"]
        if metadata.get("annotations", {}).get(self._default_key) != "true":
            return None
        return str(metadata.get("creationTimestamp", ""))
