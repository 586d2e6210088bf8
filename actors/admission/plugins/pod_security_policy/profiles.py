"""Seccomp and AppArmor profiles, which a policy has in annotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from actors.kinds.validation.field_errors import FieldErrors, forbidden
from actors.messages import Object
from actors.names import Names
from actors.quoting import quoted

RUNTIME_DEFAULT: Final = frozenset({"runtime/default", "docker/default"})


@dataclass(frozen=True, slots=True)
class Seccomp:
    pod_key: str
    container_prefix: str
    default: str
    allowed: frozenset[str]
    any: bool
    shown: str

    @classmethod
    def of(cls, names: Names, annotations: Mapping[str, str]) -> Seccomp:
        prefix = "seccomp.security.alpha"
        text = annotations.get(names.key("allowedProfileNames", prefix))
        profiles = frozenset() if text is None else frozenset(text.split(","))
        if profiles & RUNTIME_DEFAULT:
            profiles |= RUNTIME_DEFAULT
        return cls(
            names.key("pod", prefix),
            names.key("", f"container.{prefix}"),
            annotations.get(names.key("defaultProfileName", prefix), ""),
            profiles - {"*"},
            "*" in profiles,
            text or "",
        )

    def fill(self, annotations: dict[str, str], context: Object) -> None:
        profile = annotations.get(self.pod_key) or _of_field(context) or self.default
        if profile:
            annotations[self.pod_key] = profile

    def check_pod(self, errors: FieldErrors, annotations: Mapping[str, str], context: Object) -> None:
        profile = annotations.get(self.pod_key) or _of_field(context)
        self._check(errors, profile, f"pod.metadata.annotations[{self.pod_key}]")

    def check_container(
        self, errors: FieldErrors, annotations: Mapping[str, str], context: Object, container: Object
    ) -> None:
        key = self.container_prefix + container.get("name", "")
        own = container.get("securityContext") or {}
        if own.get("seccompProfile") is not None:
            profile = _of_field(own)
        elif key in annotations:
            profile = annotations[key]
        elif context.get("seccompProfile") is not None:
            profile = _of_field(context)
        else:
            profile = annotations.get(self.pod_key, "")
        self._check(errors, profile, f"pod.metadata.annotations[{key}]")

    def _check(self, errors: FieldErrors, profile: str, field: str) -> None:
        if self.any or profile in self.allowed or (not profile and not self.allowed):
            return
        if not self.allowed:
            errors.add(forbidden(field, "seccomp may not be set"))
            return
        text = f"{profile} is not an allowed seccomp profile. Valid values are {self.shown}"
        errors.add(forbidden(field, text))


def _of_field(context: Object) -> str:
    """The profile of a security context in the form of annotations."""
    profile = context.get("seccompProfile") or {}
    match profile.get("type"):
        case "Unconfined":
            return "unconfined"
        case "RuntimeDefault":
            return "runtime/default"
        case "Localhost" if "localhostProfile" in profile:
            return f"localhost/{profile['localhostProfile']}"
    return ""


@dataclass(frozen=True, slots=True)
class AppArmor:
    container_prefix: str
    default: str
    allowed: frozenset[str] | None  # None: all
    shown: str

    @classmethod
    def of(cls, names: Names, annotations: Mapping[str, str]) -> AppArmor:
        prefix = "apparmor.security.beta"
        text = annotations.get(names.key("allowedProfileNames", prefix))
        return cls(
            names.key("", f"container.{prefix}"),
            annotations.get(names.key("defaultProfileName", prefix), ""),
            None if text is None else frozenset(text.split(",")),
            text or "",
        )

    def fill(self, annotations: dict[str, str], container: str) -> None:
        key = self.container_prefix + container
        if self.default and not annotations.get(key):
            annotations[key] = self.default

    def check(self, errors: FieldErrors, annotations: Mapping[str, str], container: str) -> None:
        if self.allowed is None:
            return
        key = self.container_prefix + container
        profile, field = annotations.get(key, ""), f"pod.metadata.annotations[{key}]"
        if not profile:
            errors.add(forbidden(field, "AppArmor profile must be set"))
        elif profile not in self.allowed:
            text = f"{profile} is not an allowed profile. Allowed values: {quoted(self.shown)}"
            errors.add(forbidden(field, text))
