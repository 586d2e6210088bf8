"""Annotations of pods that the API itself reads: most came before a field of the same meaning."""

from __future__ import annotations

import re
from typing import Final

import orjson

from actors.kinds.core.pods.keys import PodKeys
from actors.kinds.core.pods.placement import TOLERATION, toleration_rules
from actors.kinds.core.pods.security import (
    SECURITY_CONTEXT,
    agreement_rules,
    annotated_profile_rules,
    profile_of,
)
from actors.kinds.core.pods.windows import containers_of
from actors.kinds.schema.exact_decoder import ExactDecoder
from actors.kinds.validation import FieldErrors, forbidden, invalid
from actors.messages import Object
from actors.quoting import quoted_start

APPARMOR_PROFILES: Final = ("", "runtime/default", "unconfined")
APPARMOR_PREFIX: Final = "localhost/"

_COST: Final = "0|[1-9][0-9]{0,9}|-[0-9]{1,32}"


def annotation_rules(
    errors: FieldErrors,
    annotations: dict[str, str],
    spec: Object,
    field: str,
    keys: PodKeys,
    *,
    any_cost: bool = False,
) -> None:
    if not annotations:
        return
    if keys.mirror in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.add(invalid(f"{field}[{keys.mirror}]", annotations[keys.mirror], text))
    if annotations.get(keys.tolerations):
        _toleration_rules(errors, annotations[keys.tolerations], field, keys.tolerations)
    cost = annotations.get(keys.deletion_cost)
    if cost is not None and not any_cost and not is_cost(cost):
        errors.add(invalid(f"{field}[{keys.deletion_cost}]", cost, "must be a 32bit integer"))
    for key, value in annotations.items():
        if key == keys.pod_seccomp or key.startswith(keys.container_seccomp):
            annotated_profile_rules(errors, value, f"{field}.{key}")
    profiles = {key: value for key, value in annotations.items() if key.startswith(keys.container_apparmor)}
    names = {container["name"] for container, _ in containers_of(spec, "")} if profiles else set[str]()
    for key, profile in profiles.items():
        name = key.removeprefix(keys.container_apparmor)
        _apparmor_rules(errors, name, profile, names, f"{field}[{key}]")


def is_cost(text: str) -> bool:
    """Whether it is a valid deletion cost: a 32-bit integer without a plus sign."""
    return bool(re.fullmatch(_COST, text)) and -(2**31) <= int(text) < 2**31


def _toleration_rules(errors: FieldErrors, text: str, field: str, key: str) -> None:
    try:
        found = orjson.loads(text)
        tolerations = [ExactDecoder(defaults=False).struct(TOLERATION, one) for one in found]
    except (ValueError, TypeError) as error:
        errors.add(invalid(field, key, f"must be a JSON list of tolerations: {error}"))
        return
    toleration_rules(errors, tolerations, f"{field}.{key}")


def _apparmor_rules(errors: FieldErrors, name: str, profile: str, containers: set[str], field: str) -> None:
    if name not in containers:
        errors.add(invalid(field, name, "container not found"))
    if not is_apparmor_profile(profile):
        errors.add(invalid(field, profile, f"invalid AppArmor profile name: {quoted_start(profile)}"))


def is_apparmor_profile(text: str) -> bool:
    return text in APPARMOR_PROFILES or text.startswith(APPARMOR_PREFIX)


def annotation_update_rules(
    errors: FieldErrors, new: dict[str, str], old: dict[str, str], field: str, keys: PodKeys
) -> None:
    """Some annotations cannot change during the life of a pod."""
    for verb, changed in (
        ("remove or update", [key for key in old if new.get(key) != old[key]]),
        ("add", [key for key in new if key not in old]),
    ):
        for key in changed:
            if key.startswith(keys.container_apparmor):
                errors.add(forbidden(f"{field}[{key}]", f"may not {verb} AppArmor annotations"))
            if key == keys.mirror:
                errors.add(forbidden(f"{field}[{key}]", f"may not {verb} mirror pod annotation"))


def seccomp_agreement_rules(
    errors: FieldErrors, annotations: dict[str, str], spec: Object, field: str, keys: PodKeys
) -> None:
    """Where annotation and field both name a seccomp profile they must name the same."""
    if not annotations:
        return
    profile = spec.get("securityContext", {}).get("seccompProfile")
    if profile is not None and keys.pod_seccomp in annotations:
        here = f"{field}.securityContext.seccompProfile"
        agreement_rules(errors, annotations[keys.pod_seccomp], profile, here)
    for container, path in containers_of(spec, field):
        profile = container.get("securityContext", {}).get("seccompProfile")
        text = annotations.get(keys.container_seccomp + container["name"])
        if profile is not None and text is not None:
            agreement_rules(errors, text, profile, f"{path}.securityContext.seccompProfile")


def with_profiles(spec: Object, annotations: dict[str, str], keys: PodKeys) -> Object:
    """The spec with fields for profiles that only annotations name; `spec` itself where there are none."""
    if not annotations:
        return spec
    changed: Object = {}
    text = annotations.get(keys.pod_seccomp)
    if text is not None:
        context = changed["securityContext"] = dict(spec.get("securityContext", {}))
        if "seccompProfile" not in context and (profile := profile_of(text)):
            context["seccompProfile"] = profile
    if any(key.startswith(keys.container_seccomp) for key in annotations):
        for part in ("initContainers", "containers", "ephemeralContainers"):
            if spec.get(part):
                changed[part] = [_with_profile(one, annotations, keys) for one in spec[part]]
    return {**spec, **changed} if changed else spec


def _with_profile(container: Object, annotations: dict[str, str], keys: PodKeys) -> Object:
    text = annotations.get(keys.container_seccomp + container["name"])
    if text is None or not (profile := profile_of(text)):
        return container
    context = SECURITY_CONTEXT.arranged({"seccompProfile": profile, **container.get("securityContext", {})})
    later: Object = {part: container[part] for part in ("stdin", "stdinOnce", "tty") if part in container}
    rest = {part: value for part, value in container.items() if part not in later}
    return {**rest, "securityContext": context, **later}
