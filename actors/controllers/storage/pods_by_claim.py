"""An index of the pods that use a claim, kept from the bodies of pods."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from actors.messages import Object
from actors.store.document import decode

Key = tuple[str, str]  # namespace and name
Uses = dict[
    str, str
]  # by name of the claim: "", or the uid of the pod if the claim must be made for that pod


class PodsByClaim:
    def __init__(self) -> None:
        self._claims: dict[Key, Uses] = {}  # by pod
        self._pods: dict[Key, set[Key]] = {}  # by claim

    def uses(self, claim: Key, controllers: Collection[str]) -> bool:
        """Whether a pod uses the claim, which these uids control."""
        found = (self._claims[pod][claim[1]] for pod in self._pods.get(claim, ()))
        return any(not uid or uid in controllers for uid in found)

    def update(self, pod: Key, body: bytes) -> list[Key]:
        """Replace the claims of a pod; returns those that it used and does not use any more."""
        # Most pods have no claim and are not parsed. The bytes may occur anywhere, so that a match proves nothing.
        mentions = b'"claimName"' in body or b'"volumeClaimTemplate"' in body
        new = dict(_uses(decode(body))) if mentions else {}
        if not new and pod not in self._claims:
            return []
        released = [claim for claim in self.remove(pod) if claim[1] not in new]
        if new:
            self._claims[pod] = new
        for name in new:
            self._pods.setdefault((pod[0], name), set()).add(pod)
        return released

    def remove(self, pod: Key) -> list[Key]:
        """Forget a pod; returns the claims that it used."""
        claims = [(pod[0], name) for name in self._claims.pop(pod, ())]
        for claim in claims:
            self._pods[claim].discard(pod)
            if not self._pods[claim]:
                del self._pods[claim]
        return claims

    def clear(self) -> None:
        self._claims.clear()
        self._pods.clear()


def _uses(pod: Object) -> Iterator[tuple[str, str]]:
    spec, metadata = pod["spec"], pod["metadata"]
    if not spec.get("nodeName"):
        return
    volumes = spec.get("volumes") or ()
    # A pod whose node has ended it may be kept by a finalizer that waits for its own claims.
    if not ("deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds") == 0):
        for volume in volumes:
            if "ephemeral" in volume:
                yield f"{metadata['name']}-{volume['name']}", metadata["uid"]
    for volume in volumes:
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"], ""
