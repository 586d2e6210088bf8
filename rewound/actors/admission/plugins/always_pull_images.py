"""AlwaysPullImages: nodes pull images before every start, so that only users who may pull an image can use it.

Updates without a new image are not affected: the containers of a stored pod keep their policies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rewound.actors.access.authorize import join_errors
from rewound.actors.admission.plugin import Plugin, forbidden, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.containers import CONTAINER, EPHEMERAL_CONTAINER
from rewound.actors.messages import Object

PODS: Final = Resource("", "pods")
CONTAINERS: Final = {
    "initContainers": CONTAINER,
    "containers": CONTAINER,
    "ephemeralContainers": EPHEMERAL_CONTAINER,
}


class AlwaysPullImages(Plugin):
    name = "AlwaysPullImages"
    thread_safe = True
    mutates = validates = (rule(CREATE, UPDATE, of=(PODS,)),)

    def mutate(self, request: AdmissionRequest) -> Object | None:
        pod = request.object
        assert pod is not None
        if not _has_new_image(pod, request.old):
            return None
        spec = dict(pod["spec"])
        for part, struct in CONTAINERS.items():
            if spec.get(part):
                spec[part] = [struct.arranged({**one, "imagePullPolicy": "Always"}) for one in spec[part]]
        return {**pod, "spec": spec}

    def validate(self, request: AdmissionRequest) -> None:
        """A webhook may have changed a policy."""
        pod = request.object
        assert pod is not None
        if not _has_new_image(pod, request.old):
            return
        wrong = [
            f'spec.{where}.imagePullPolicy: Unsupported value: {quoted_start(policy)}: supported values: "Always"'
            for where, one in _containers(pod)
            if (policy := one.get("imagePullPolicy", "")) != "Always"
        ]
        if wrong:
            raise forbidden(request, join_errors(wrong))


def _containers(pod: Object) -> Iterator[tuple[str, Object]]:
    for part in CONTAINERS:
        for index, container in enumerate(pod["spec"].get(part) or ()):
            yield f"{part}[{index}]", container


def _has_new_image(pod: Object, old: Object | None) -> bool:
    """Whether an update adds an image; True for every create."""
    if old is None:
        return True
    known = {one.get("image", "") for _, one in _containers(old)}
    return any(one.get("image", "") not in known for _, one in _containers(pod))
