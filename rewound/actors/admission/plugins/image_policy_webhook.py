"""ImagePolicyWebhook: POSTs an ImageReview with the images of a pod to a webhook, which allows or rejects the pod.

Decisions are cached by the spec of the review. If the webhook cannot be called, `defaultAllow` decides; a pod that is
then allowed gets an annotation. Ephemeral containers are reviewed when they are added, as in later releases of v1.25.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from rewound.actors.access.remote.calls import Calls, WebhookError, review
from rewound.actors.access.remote.shared_calls import ExpiringCache, SharedCalls
from rewound.actors.access.remote.target import Target, read_target
from rewound.actors.admission.configuration import PluginConfiguration
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, forbidden, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Resource
from rewound.actors.golang.json import unescaped
from rewound.actors.messages import Object
from rewound.actors.names import Names

logger = logging.getLogger(__name__)

PODS: Final = Resource("", "pods")
EPHEMERAL: Final = "ephemeralcontainers"
CONFIGURATION: Final = "imagePolicy"
MAX_CACHED: Final = 1024
MAX_CACHED_BYTES: Final = 10_000  # of a spec, so that the cache stays below 10 MB
HALF_AN_HOUR: Final = 1800.0


@dataclass(frozen=True, slots=True, repr=False)
class ImagePolicy:
    """Times in seconds; 0: decisions are not cached, or the first retry is not delayed."""

    target: Target
    allow_seconds: float = 300.0
    deny_seconds: float = 30.0
    retry_seconds: float = 0.5
    default_allow: bool = False


@dataclass(frozen=True, slots=True)
class _Decision:
    allowed: bool
    reason: str = ""
    audit_annotations: tuple[tuple[str, str], ...] = ()


class ImagePolicyWebhook(AsyncPlugin):
    name = "ImagePolicyWebhook"
    runs = True
    annotates = True
    validates = (rule(CREATE, UPDATE, of=(PODS,), subresources=("", EPHEMERAL)),)

    def __init__(self, names: Names, policy: ImagePolicy | None, calls: Calls) -> None:
        self._policy = policy
        self._webhook = None if policy is None else calls.webhook(policy.target)
        self._api_version = f"{names.group('imagepolicy')}/v1alpha1"
        self._annotations = f".{names.group('image-policy')}/"
        self._failed_open = f"alpha{self._annotations}failed-open"
        self._audit_prefix = f"imagepolicywebhook{self._annotations}"
        self._cache: ExpiringCache[bytes, _Decision] = ExpiringCache(MAX_CACHED)
        self._calls: SharedCalls[bytes, _Decision] = SharedCalls()

    def check_configuration(self) -> None:
        if self._policy is None:
            raise ValueError(f"ImagePolicyWebhook needs a configuration with {CONFIGURATION}")

    async def run(self) -> None:
        assert self._webhook is not None
        await self._webhook.run()

    async def admit(self, request: AdmissionRequest) -> Admitted:
        assert self._policy is not None
        spec = self._spec(request)
        key = unescaped(spec, option=orjson.OPT_SORT_KEYS)
        try:
            decision = self._cache.get(key) or await self._calls.result(key, lambda: self._review(key, spec))
        except WebhookError as error:
            if not self._policy.default_allow:
                raise forbidden(request, str(error)) from None
            request.annotate(f"{self._audit_prefix}failed-open", "true")
            return Admitted(annotations=((self._failed_open, "true"),))
        for name, value in decision.audit_annotations:
            request.annotate(self._audit_prefix + name, value)
        if not decision.allowed:
            raise forbidden(request, _refusal(decision.reason))
        return Admitted()

    def _spec(self, request: AdmissionRequest) -> dict[str, Any]:
        pod = request.object
        assert pod is not None
        parts = ("ephemeralContainers",) if request.subresource else ("containers", "initContainers")
        images = [one.get("image", "") for part in parts for one in pod["spec"].get(part) or ()]
        annotations = {
            key: value
            for key, value in pod["metadata"].get("annotations", {}).items()
            if self._annotations in key
        }
        spec = {
            "containers": [{"image": image} if image else {} for image in images],
            "annotations": annotations,
            "namespace": request.namespace,
        }
        return {field: value for field, value in spec.items() if value}

    async def _review(self, key: bytes, spec: dict[str, Any]) -> _Decision:
        policy, webhook = self._policy, self._webhook
        assert policy is not None and webhook is not None
        try:
            status = await review(
                webhook, self._api_version, "ImageReview", spec, first_delay=policy.retry_seconds
            )
            decision = _decision(status)
        except WebhookError as error:
            logger.warning("image policy webhook: %s", error)
            raise
        if len(key) <= MAX_CACHED_BYTES:
            seconds = policy.allow_seconds if decision.allowed else policy.deny_seconds
            self._cache.put(key, decision, seconds)
        return decision


def _decision(status: dict[str, Any]) -> _Decision:
    allowed, reason = status.get("allowed", False), status.get("reason", "")
    annotations = status.get("auditAnnotations") or {}
    usable = isinstance(allowed, bool) and isinstance(reason, str) and isinstance(annotations, dict)
    if not usable or not all(isinstance(value, str) for value in annotations.values()):
        raise WebhookError("the status of the ImageReview cannot be used")
    return _Decision(allowed, reason, tuple(annotations.items()))


def _refusal(reason: str) -> str:
    if reason:
        return f"image policy webhook backend denied one or more images: {reason}"
    return "one or more images rejected by webhook backend"


def parse_image_policy(given: PluginConfiguration | None) -> ImagePolicy | None:
    """`{"imagePolicy": {kubeConfigFile, allowTTL, denyTTL, retryBackoff, defaultAllow}}`."""
    if given is None:
        return None
    given.check_fields(CONFIGURATION)
    fields = given.document.get(CONFIGURATION)
    if not isinstance(fields, dict):
        raise given.error(CONFIGURATION, "must be a mapping")
    for name in fields:
        if name not in _FIELDS:
            raise given.error(f"{CONFIGURATION}.{name}", f"is not known; there are {', '.join(_FIELDS)}")
    default_allow = fields.get("defaultAllow") or False
    if not isinstance(default_allow, bool):
        raise given.error(f"{CONFIGURATION}.defaultAllow", "must be true or false")
    return ImagePolicy(
        _target(given, fields.get("kubeConfigFile")),
        _seconds(given, fields, "allowTTL", 1.0, 1.0, HALF_AN_HOUR, 300.0),
        _seconds(given, fields, "denyTTL", 1.0, 1.0, HALF_AN_HOUR, 30.0),
        _seconds(given, fields, "retryBackoff", 0.001, 0.0, 300.0, 0.5),
        default_allow,
    )


_FIELDS: Final = ("kubeConfigFile", "allowTTL", "denyTTL", "retryBackoff", "defaultAllow")


def _target(given: PluginConfiguration, file: object) -> Target:
    if not isinstance(file, str) or not file:
        raise given.error(f"{CONFIGURATION}.kubeConfigFile", "must be the path of a file")
    try:
        return read_target(given.path.parent / Path(file))
    except ValueError as error:
        raise given.error(f"{CONFIGURATION}.kubeConfigFile", str(error)) from None


def _seconds(
    given: PluginConfiguration,
    fields: Object,
    name: str,
    unit: float,
    least: float,
    most: float,
    default: float,
) -> float:
    """A duration in seconds. 0 means the default, and -1 none."""
    value = fields.get(name) or 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise given.error(f"{CONFIGURATION}.{name}", "must be a whole number")
    if value in (0, -1):
        return 0.0 if value else default
    seconds = value * unit
    if not least <= seconds <= most:
        raise given.error(f"{CONFIGURATION}.{name}", f"must be between {least / unit:g} and {most / unit:g}")
    return seconds
