"""PodTemplate, the pod template inside every workload, and what pods and templates share besides the spec.

Workload kinds put `POD_TEMPLATE_SPEC` into their specs, call `set_template_defaults` for defaults,
`without_disabled_template_fields` to prepare, `pod_template_rules` to validate, and `template_warnings` to warn.

Pods and templates share the rules of annotations that the API itself reads, most of which preceded a field of the
same meaning; the removal of fields of disabled features from requests, unless the old object has them; and the
warnings about objects that are valid but may not work as their authors expect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import accumulate
from typing import Final

import orjson
from msgspec.structs import replace

from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.node_selector import deprecated_labels, requirement_warnings
from rewound.actors.kinds.core.pod_spec import (
    NOTHING_ALLOWED,
    POD_SPEC,
    PREFERRED,
    REQUIRED,
    TOLERATION,
    Allowed,
    PodKeys,
    SpecRules,
    allowed_by,
    set_spec_defaults,
    toleration_rules,
    used_features,
)
from rewound.actors.kinds.core.resources import is_sidecar
from rewound.actors.kinds.core.security_context import (
    LONGEST_PROFILE,
    SECURITY_CONTEXT,
    agreement_rules,
    annotated_profile_rules,
    containers_of,
    profile_of,
)
from rewound.actors.kinds.declaration.columns import NAME, Column
from rewound.actors.kinds.declaration.definition import Definition, Deletion, Strategy, Table, bump_generation
from rewound.actors.kinds.declaration.meta import (
    METADATA,
    TEMPLATE_META,
    annotation_rules,
    label_rules,
    metadata_update_rules,
)
from rewound.actors.kinds.declaration.workloads import containers_cell, images_cell, labels_or_none
from rewound.actors.kinds.schema.exact_decoder import ExactDecoder
from rewound.actors.kinds.schema.fields import Field, Struct
from rewound.actors.kinds.validation import (
    FieldErrors,
    forbidden,
    invalid,
    ip_warnings,
    name_is_subdomain,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.quantity import NANOS, nanos_of
from rewound.actors.versions.features import (
    APP_ARMOR_FIELDS,
    EXPANDED_DNS,
    HIDDEN_IN_WARNINGS,
    IMAGE_VOLUMES,
    MIN_DOMAINS,
    NO_GIT_REPOSITORIES,
    OWN_PATHS,
    PATHS_OVERLAP,
    PROC_MOUNT,
    RESTART_POLICIES_DROPPED,
    RESTART_RULES,
    SECCOMP_FIELDS_ALONE,
    SIDECARS,
    SLEEP_ACTION,
    SPREAD_INCLUSION,
    SPREAD_LABEL_KEYS,
    STOP_SIGNALS,
    USER_NAMESPACES,
    USER_NAMESPACES_SUPPORT,
)

POD_TEMPLATE_SPEC = Struct(
    "core.v1.PodTemplateSpec",
    Field("metadata", TEMPLATE_META, 1),
    Field("spec", POD_SPEC, 2),
)
POD_TEMPLATE = Struct(
    "core.v1.PodTemplate",
    METADATA,
    Field("template", POD_TEMPLATE_SPEC, 2),
)

COLUMNS = (
    NAME,
    Column("Containers", "string", "Names of the containers in each pod.", containers_cell),
    Column("Images", "string", "Images of the containers.", images_cell),
    Column(
        "Pod Labels",
        "string",
        "Labels of pods made from it.",
        lambda stored, _: labels_or_none(stored["template"]["metadata"].get("labels", {})),
    ),
)


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    return Definition(
        group="",
        version="v1",
        kind="PodTemplate",
        plural="podtemplates",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=POD_TEMPLATE,
        set_defaults=lambda new: set_template_defaults(new["template"], features),
        deletion=Deletion(returns_object=True),
        table=Table(COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(prepare_create, features),
            prepare_for_update=partial(prepare_update, features),
            validate_create=partial(create_rules, names=names),
            validate_update=partial(update_rules, names=names),
            warnings=partial(warnings, names, features),
        ),
    )


def prepare_create(features: frozenset[str], new: Object) -> None:
    new["metadata"]["generation"] = 1
    new["template"] = without_disabled_template_fields(new["template"], None, features)


def prepare_update(features: frozenset[str], new: Object, old: Object) -> None:
    new["template"] = without_disabled_template_fields(new["template"], old["template"], features)
    bump_generation(new, old, "template")


def create_rules(errors: FieldErrors, new: Object, *, names: Names) -> None:
    pod_template_rules(errors, new["template"], "template", names)


def update_rules(errors: FieldErrors, new: Object, old: Object, *, names: Names) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    pod_template_rules(errors, new["template"], "template", names, old["template"])


def warnings(names: Names, features: frozenset[str], new: Object, old: Object | None) -> list[str]:
    if old is not None and new["metadata"].get("generation") == old["metadata"].get("generation"):
        return []
    return template_warnings(new["template"], "template", names, features)


def set_template_defaults(template: Object, features: frozenset[str] = frozenset()) -> None:
    """Set the defaults of a template that depend on more than one field."""
    set_spec_defaults(template["spec"], features)


def without_disabled_template_fields(
    template: Object, old: Object | None = None, features: frozenset[str] = frozenset()
) -> Object:
    """Return the template without fields of disabled features that the old one lacks; a copy if there are any."""
    spec = without_disabled_fields(template["spec"], None if old is None else old["spec"], features)
    return template if spec is template["spec"] else {**template, "spec": spec}


def pod_template_rules(
    errors: FieldErrors,
    template: Object,
    field: str,
    names: Names,
    old: Object | None = None,
) -> None:
    """Validate a template. `old` is the template before the update, whose values an update may keep."""
    keys, rules = _rules(names)
    metadata, spec = template["metadata"], template["spec"]
    template_metadata_rules(errors, template, field, names, old)
    allowed = _allowed_on_update(template, old, keys)
    if EXPANDED_DNS in errors.features:
        allowed = replace(allowed, expanded_dns=True)
    if old is not None:
        tolerate_used_features(errors, spec, old["spec"])
    rules.validate(errors, spec, f"{field}.spec", allowed=allowed)
    seccomp_agreement_rules(errors, metadata.get("annotations", {}), spec, f"{field}.spec", keys)
    if "ephemeralContainers" in spec:
        text = "ephemeral containers not allowed in pod template"
        errors.add(forbidden(f"{field}.spec.ephemeralContainers", text))


def tolerate_used_features(errors: FieldErrors, spec: Object, old: Object) -> None:
    """Let an update of a pod or template keep what the old one uses, though its gate is off."""
    used = {*used_features(spec, old)} - errors.features
    if used:
        errors.features = errors.features | used


def template_metadata_rules(
    errors: FieldErrors, template: Object, field: str, names: Names, old: Object | None = None
) -> None:
    """Validate the labels and annotations of a template."""
    keys = _rules(names)[0]
    metadata, spec = template["metadata"], template["spec"]
    labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    any_cost = _allowed_on_update(template, old, keys).any_deletion_cost
    label_rules(errors, labels, f"{field}.labels")
    annotation_rules(errors, annotations, f"{field}.annotations")
    pod_annotation_rules(errors, annotations, spec, f"{field}.annotations", keys, any_cost=any_cost)


def _allowed_on_update(template: Object, old: Object | None, keys: PodKeys) -> Allowed:
    if old is None:
        return NOTHING_ALLOWED
    cost = old["metadata"].get("annotations", {}).get(keys.deletion_cost)
    bad_cost = cost is not None and not is_cost(cost)
    return replace(allowed_by(template["spec"], old["spec"]), any_deletion_cost=bad_cost)


def template_warnings(
    template: Object, field: str, names: Names, features: frozenset[str] = frozenset()
) -> list[str]:
    return _warnings(names, features).of(template, field)


def spec_warnings(names: Names, features: frozenset[str], new: Object, old: Object | None) -> list[str]:
    """Return warnings about the template, on create and whenever the generation has grown."""
    if old is not None and new["metadata"].get("generation") == old["metadata"].get("generation"):
        return []
    return template_warnings(new["spec"]["template"], "spec.template", names, features)


@cache  # one per dialect
def _rules(names: Names) -> tuple[PodKeys, SpecRules]:
    keys = PodKeys.of(names)
    return keys, SpecRules(keys)


@cache
def _warnings(names: Names, features: frozenset[str]) -> PodWarnings:
    return PodWarnings(names, features)


APPARMOR_PROFILES: Final = ("", "runtime/default", "unconfined")
APPARMOR_PREFIX: Final = "localhost/"

_COST: Final = "0|[1-9][0-9]{0,9}|-[0-9]{1,32}"


def pod_annotation_rules(
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


def pod_annotation_update_rules(
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
    """If both annotation and field name a seccomp profile, they must name the same one."""
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
    """Return the spec with fields for profiles that only annotations name, or `spec` itself if there are none."""
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


def apparmor_agreement_rules(
    errors: FieldErrors, annotations: dict[str, str], spec: Object, field: str, keys: PodKeys
) -> None:
    """If both annotation and field name an AppArmor profile of a new pod, they must name the same one."""
    if not annotations or spec.get("os", {}).get("name") == "windows":
        return
    of_pod = spec.get("securityContext", {}).get("appArmorProfile")
    for container, path in containers_of(spec, field):
        profile = container.get("securityContext", {}).get("appArmorProfile", of_pod)
        text = annotations.get(keys.container_apparmor + container["name"])
        if profile is None or text is None:
            continue
        kind, here = profile["type"], f"{path}.securityContext.appArmorProfile"
        if kind == "Localhost" and text.startswith(APPARMOR_PREFIX):
            if text.removeprefix(APPARMOR_PREFIX) != profile.get("localhostProfile"):
                why = "apparmor profile in annotation and field must match"
                errors.add(forbidden(f"{here}.localhostProfile", why))
        elif kind in _APPARMOR_TYPES and text != _APPARMOR_TYPES[kind]:
            errors.add(forbidden(f"{here}.type", "apparmor type in annotation and field must match"))


def with_apparmor_profiles(spec: Object, annotations: dict[str, str], keys: PodKeys) -> Object:
    """Return the spec with fields for AppArmor profiles that only annotations name, or `spec` itself."""
    if spec.get("os", {}).get("name") == "windows":
        return spec
    if not any(key.startswith(keys.container_apparmor) for key in annotations):
        return spec
    of_pod, changed = spec.get("securityContext", {}).get("appArmorProfile"), {}
    for part in _CONTAINERS:
        if spec.get(part):
            changed[part] = [
                _with_context(one, "appArmorProfile", profile)
                if (profile := apparmor_profile_of(annotations.get(keys.container_apparmor + one["name"])))
                and profile != of_pod
                and "appArmorProfile" not in one.get("securityContext", ())
                else one
                for one in spec[part]
            ]
    return {**spec, **changed}


def apparmor_annotations(spec: Object, annotations: dict[str, str], keys: PodKeys) -> dict[str, str]:
    """The annotations that containers lack which have a profile, so that older nodes enforce it too."""
    if spec.get("os", {}).get("name") == "windows":
        return {}
    of_pod, found = spec.get("securityContext", {}).get("appArmorProfile"), {}
    for container in (one for part in _CONTAINERS for one in spec.get(part) or ()):
        key = keys.container_apparmor + container["name"]
        profile = container.get("securityContext", {}).get("appArmorProfile") or of_pod
        if profile is None or key in annotations:
            continue
        if profile.get("type") == "Localhost" and "localhostProfile" in profile:
            found[key] = APPARMOR_PREFIX + profile["localhostProfile"]
        elif profile.get("type") in ("RuntimeDefault", "Unconfined"):
            found[key] = _APPARMOR_TYPES[profile["type"]]
    return found


def apparmor_profile_of(text: str | None) -> Object | None:
    """Return the value of an annotation in the form of the field, or None if it names no valid profile."""
    if text is None:
        return None
    path = text.removeprefix(APPARMOR_PREFIX)
    if path != text:
        valid = path and path == path.strip() and len(path) <= LONGEST_PROFILE
        return {"type": "Localhost", "localhostProfile": path} if valid else None
    return next(({"type": kind} for kind, value in _APPARMOR_TYPES.items() if value == text), None)


# The annotation of each type of profile; that of Localhost begins with a prefix.
_APPARMOR_TYPES: Final = {"RuntimeDefault": "runtime/default", "Unconfined": "unconfined", "Localhost": None}


def _with_context(container: Object, part: str, value: Object) -> Object:
    context = SECURITY_CONTEXT.arranged({**container.get("securityContext", {}), part: value})
    later: Object = {part: container[part] for part in ("stdin", "stdinOnce", "tty") if part in container}
    rest = {part: value for part, value in container.items() if part not in later}
    return {**rest, "securityContext": context, **later}


def _with_profile(container: Object, annotations: dict[str, str], keys: PodKeys) -> Object:
    text = annotations.get(keys.container_seccomp + container["name"])
    if text is None or not (profile := profile_of(text)):
        return container
    if "seccompProfile" in container.get("securityContext", ()):
        return container
    return _with_context(container, "seccompProfile", profile)


_SPREAD: Final = {
    "minDomains": MIN_DOMAINS,
    "nodeTaintsPolicy": SPREAD_INCLUSION,
    "nodeAffinityPolicy": SPREAD_INCLUSION,
    "matchLabelKeys": SPREAD_LABEL_KEYS,
}


_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_USER_NAMESPACES: Final = (USER_NAMESPACES, USER_NAMESPACES_SUPPORT)


def without_disabled_fields(spec: Object, old: Object | None, features: frozenset[str]) -> Object:
    """Return the spec without fields of disabled features: a changed copy, or `spec` itself if there are none."""
    before, changed = old or {}, {}
    if "hostUsers" in spec and features.isdisjoint(_USER_NAMESPACES) and "hostUsers" not in before:
        spec = {part: value for part, value in spec.items() if part != "hostUsers"}
    constraints = spec.get("topologySpreadConstraints")
    if constraints:
        changed["topologySpreadConstraints"] = _without_disabled_spread_fields(constraints, before, features)
    if PROC_MOUNT not in features and _sets_proc_mount(spec) and not _keeps_proc_mount(before):
        changed.update({part: _default_proc_mounts(spec[part]) for part in _CONTAINERS if spec.get(part)})
    spec = {**spec, **changed} if changed else spec
    if IMAGE_VOLUMES not in features and any("image" in one for one in spec.get("volumes", ())):
        spec = _without_image_volumes(spec, before)
    return _without_disabled_container_fields(spec, before, features)


def _without_image_volumes(spec: Object, before: Object) -> Object:
    """Return the spec without volumes of images and their mounts, unless the old one has such volumes."""
    if any("image" in one for one in before.get("volumes", ())):
        return spec
    dropped = {one["name"] for one in spec["volumes"] if "image" in one}
    volumes = [one for one in spec["volumes"] if "image" not in one]
    kept = {part: value for part, value in spec.items() if part != "volumes" or volumes}
    if volumes:
        kept["volumes"] = volumes
    for part in _CONTAINERS:
        if kept.get(part):
            kept[part] = [_without_mounts(container, dropped) for container in kept[part]]
    return kept


def _without_mounts(container: Object, volumes: set[str]) -> Object:
    mounts = [one for one in container.get("volumeMounts", ()) if one["name"] not in volumes]
    if mounts or "volumeMounts" not in container:
        return {**container, "volumeMounts": mounts} if mounts else container
    return {part: value for part, value in container.items() if part != "volumeMounts"}


def _without_disabled_container_fields(spec: Object, before: Object, features: frozenset[str]) -> Object:
    """Drop restart policies and lifecycle actions of gates that are off, unless the old spec uses them."""
    drops = [drop for gate, drop in _CONTAINER_DROPS if gate not in features]
    if not drops:
        return spec
    changed: Object = {}
    for part in _CONTAINERS:
        if any("lifecycle" in one or "restartPolicy" in one for one in spec.get(part) or ()):
            containers = spec[part]
            for drop in drops:
                containers = drop(containers, part, before, features)
            if containers != spec[part]:
                changed[part] = containers
    return {**spec, **changed} if changed else spec


def _drop_sidecars(containers: list[Object], part: str, before: Object, _: frozenset[str]) -> list[Object]:
    if part != "initContainers" or any(map(is_sidecar, before.get("initContainers", ()))):
        return containers
    return [_without(one, "restartPolicy") for one in containers]


def _drop_restart_rules(
    containers: list[Object], part: str, before: Object, features: frozenset[str]
) -> list[Object]:
    if RESTART_POLICIES_DROPPED not in features or RESTART_RULES in used_features({}, before):
        return containers
    return [
        one
        if part == "initContainers" and is_sidecar(one) and "restartPolicyRules" not in one
        else _without(
            one, *(("restartPolicyRules",) if is_sidecar(one) and part == "initContainers" else _RESTART)
        )
        for one in containers
    ]


def _drop_sleep(containers: list[Object], _: str, before: Object, __: frozenset[str]) -> list[Object]:
    if any(
        "sleep" in one.get("lifecycle", {}).get(hook, ())
        for one, _ in containers_of(before, "")
        for hook in _HOOKS
    ):
        return containers
    return [_with_lifecycle(one, _without_sleep) for one in containers]


def _without_sleep(lifecycle: Object) -> Object:
    kept = {}
    for part, value in lifecycle.items():
        if part in _HOOKS and "sleep" in value:
            value = _without(value, "sleep")
            if not value:
                continue
        kept[part] = value
    return kept


def _drop_stop_signals(containers: list[Object], _: str, before: Object, __: frozenset[str]) -> list[Object]:
    if any("stopSignal" in one.get("lifecycle", ()) for one, _ in containers_of(before, "")):
        return containers
    return [_with_lifecycle(one, lambda lifecycle: _without(lifecycle, "stopSignal")) for one in containers]


def _with_lifecycle(container: Object, change: Callable[[Object], Object]) -> Object:
    """Return the container with a changed lifecycle, and without one if nothing is left of it."""
    before = container.get("lifecycle")
    if before is None or (after := change(before)) == before:
        return container
    return {**container, "lifecycle": after} if after else _without(container, "lifecycle")


def _without(value: Object, *parts: str) -> Object:
    return {part: one for part, one in value.items() if part not in parts}


_RESTART: Final = ("restartPolicy", "restartPolicyRules")
_HOOKS: Final = ("preStop", "postStart")
_CONTAINER_DROPS: Final = (
    (SIDECARS, _drop_sidecars),
    (RESTART_RULES, _drop_restart_rules),
    (SLEEP_ACTION, _drop_sleep),
    (STOP_SIGNALS, _drop_stop_signals),
)


def _without_disabled_spread_fields(
    constraints: list[Object], before: Object, features: frozenset[str]
) -> list[Object]:
    had = before.get("topologySpreadConstraints", ())
    dropped = {
        part
        for part, feature in _SPREAD.items()
        if feature not in features and not any(part in one for one in had)
    }
    return [{part: value for part, value in one.items() if part not in dropped} for one in constraints]


def _sets_proc_mount(spec: Object) -> bool:
    return any(True for _ in _proc_mounts(spec))


def _keeps_proc_mount(before: Object) -> bool:
    return any(mount != "Default" for mount in _proc_mounts(before))


def _proc_mounts(spec: Object) -> Iterator[str]:
    for part in _CONTAINERS:
        for container in spec.get(part) or ():
            if "procMount" in container.get("securityContext", ()):
                yield container["securityContext"]["procMount"]


def _default_proc_mounts(containers: list[Object]) -> list[Object]:
    return [
        {**one, "securityContext": {**one["securityContext"], "procMount": "Default"}}
        if "procMount" in one.get("securityContext", ())
        else one
        for one in containers
    ]


_SOON: Final = "deprecated in v1.22, support removal is planned in v1.26"
_OLD_SOURCES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": _SOON,
    "storageos": _SOON,
    "quobyte": _SOON,
    "glusterfs": "deprecated in v1.25, this feature will be removed soon after in a subsequent release",
}
_NAME_IN_PATHS: Final = {"storageos": "storageOS"}
_USE_SYSCTLS: Final = 'non-functional in v1.11+; use the "sysctls" field instead'
_USE_PROFILE: Final = (
    'deprecated since v1.19, non-functional in a future release; use the "seccompProfile" field instead'
)
_IN_BYTES: Final = ("memory", "ephemeral-storage")


class PodWarnings:
    def __init__(self, names: Names, features: frozenset[str] = frozenset()) -> None:
        self._features = features
        self._keys = PodKeys.of(names)
        self._old_labels = deprecated_labels(names)
        self._old_annotations = {
            names.key("critical-pod", "scheduler.alpha"): (
                'non-functional in v1.16+; use the "priorityClassName" field instead'
            ),
            names.key("sysctls", "security.alpha"): _USE_SYSCTLS,
            names.key("unsafe-sysctls", "security.alpha"): _USE_SYSCTLS,
        }

    def of(self, pod: Object, field: str = "") -> list[str]:
        """Return warnings about a pod, or about the template at `field`."""
        prefix = f"{field}." if field else ""
        spec, annotations = pod["spec"], pod["metadata"].get("annotations", {})
        features = self._features
        return [
            *self._labels(spec, f"{prefix}spec"),
            *(
                f"{prefix}metadata.annotations[{key}]: {text}"
                for key, text in self._old_annotations.items()
                if key in annotations
            ),
            *_sources(spec, f"{prefix}spec", features),
            *(_overlapping_paths(spec, features) if PATHS_OVERLAP in features else ()),
            *_repeated_entries(spec, f"{prefix}spec", features),
            *_fractions(spec.get("overhead", {}), f"{prefix}spec.overhead"),
            *self._profiles(spec, annotations, prefix),
            *(_port_warnings(spec, f"{prefix}spec", features) if HIDDEN_IN_WARNINGS in features else ()),
            *_later_warnings(spec, f"{prefix}spec", features),
        ]

    def _labels(self, spec: Object, field: str) -> Iterator[str]:
        known = self._old_labels
        for key in spec.get("nodeSelector", ()):
            if key in known:
                yield f"{field}.nodeSelector[{key}]: {known[key]}"
        affinity = spec.get("affinity", {}).get("nodeAffinity", {})
        here = f"{field}.affinity.nodeAffinity"
        for index, term in enumerate(affinity.get(REQUIRED, {}).get("nodeSelectorTerms") or ()):
            expressions = term.get("matchExpressions", ())
            path = f"{here}.{REQUIRED}.nodeSelectorTerms[{index}].matchExpressions"
            yield from requirement_warnings(known, expressions, path)
        for index, weighted in enumerate(affinity.get(PREFERRED, ())):
            expressions = weighted["preference"].get("matchExpressions", ())
            path = f"{here}.{PREFERRED}[{index}].preference.matchExpressions"
            yield from requirement_warnings(known, expressions, path)
        for index, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
            key = constraint["topologyKey"]
            if key in known:
                yield f"{field}.topologySpreadConstraints[{index}].topologyKey: {key} is {known[key]}"
            if "labelSelector" not in constraint and HIDDEN_IN_WARNINGS in self._features:
                yield f"{field}.topologySpreadConstraints[{index}].labelSelector: {_MATCHES_NO_POD}"

    def _profiles(self, spec: Object, annotations: Object, prefix: str) -> Iterator[str]:
        here = f"{prefix}metadata.annotations"
        use_profile = _USE_PROFILE_ALONE if SECCOMP_FIELDS_ALONE in self._features else _USE_PROFILE
        if self._keys.pod_seccomp in annotations and _has_no_seccomp_profile(spec):
            yield f"{here}[{self._keys.pod_seccomp}]: {use_profile}"
        for container, path in containers_of(spec, f"{prefix}spec"):
            key = self._keys.container_seccomp + container["name"] if annotations else ""
            if key in annotations and _has_no_seccomp_profile(container):
                yield f"{here}[{key}]: {use_profile}"
            if APP_ARMOR_FIELDS in self._features and annotations:
                yield from self._apparmor(container, spec, annotations, prefix)
            if container["resources"]:
                yield from _container_fractions(container["resources"], f"{path}.resources")
            env = container.get("env", ())
            if len({variable["name"] for variable in env}) < len(env):
                if HIDDEN_IN_WARNINGS in self._features:
                    yield from _hidden_variables(env, f"{path}.env", self._features)
                else:
                    yield from _duplicates(env, "name", f"{path}.env")

    def _apparmor(self, container: Object, spec: Object, annotations: Object, prefix: str) -> Iterator[str]:
        key = self._keys.container_apparmor + container["name"]
        if key not in annotations:
            return
        profile = apparmor_profile_of(annotations[key])
        own = container.get("securityContext", {}).get("appArmorProfile")
        of_pod = spec.get("securityContext", {}).get("appArmorProfile")
        # A pod's annotation has already become a field.
        if (own is None or (not prefix and own == profile)) and (profile is None or profile != of_pod):
            yield f"{prefix}metadata.annotations[{key}]: {_USE_APPARMOR_FIELD}"


def _has_no_seccomp_profile(holder: Object) -> bool:
    return "seccompProfile" not in holder.get("securityContext", {})


def _sources(spec: Object, field: str, features: frozenset[str]) -> Iterator[str]:
    sources = _OLD_SOURCES
    if "volumes" in spec and SECCOMP_FIELDS_ALONE in features:
        sources = {**sources, **_REMOVED_SOURCES}
        sources |= _CEPH if HIDDEN_IN_WARNINGS in features else {}
        sources |= _GIT_DISABLED if NO_GIT_REPOSITORIES in features else {}
    for index, volume in enumerate(spec.get("volumes", ())):
        for source, text in sources.items():
            if source in volume:
                yield f"{field}.volumes[{index}].{_NAME_IN_PATHS.get(source, source)}: {text}"


_NOT_SINCE_1_25: Final = "deprecated in v1.22, non-functional in v1.25+"
_REMOVED_SOURCES: Final = {
    **dict.fromkeys(("flocker", "storageos", "quobyte"), _NOT_SINCE_1_25),
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
}
_CEPH: Final = dict.fromkeys(("cephfs", "rbd"), "deprecated in v1.28, non-functional in v1.31+")
_GIT_DISABLED: Final = {"gitRepo": "deprecated in v1.11, and disabled by default in v1.33+"}
_MATCHES_NO_POD: Final = "a null labelSelector results in matching no pod"
_USE_PROFILE_ALONE: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_USE_APPARMOR_FIELD: Final = 'deprecated since v1.30; use the "appArmorProfile" field instead'


def _hidden_variables(env: list[Object], field: str, features: frozenset[str]) -> Iterator[str]:
    more = ", which may be dropped when using apply" if APP_ARMOR_FIELDS in features else ""
    seen: set[str] = set()
    for index, variable in enumerate(env):
        name, value = variable["name"], variable.get("value", "")
        reference = f"$({name})"
        hides = "valueFrom" in variable or value == reference or reference not in value
        if name in seen and hides:
            yield f"{field}[{index}]: hides previous definition of {quoted_start(name)}{more}"
        seen.add(name)


def _port_warnings(spec: Object, field: str, features: frozenset[str]) -> Iterator[str]:
    """Warn about ports that several entries name. A port without a host port overlaps all others."""
    ports: dict[tuple[int, str], list[tuple[str, Object]]] = {}
    names: dict[str, str] = {}
    named = []
    for container, path in containers_of(spec, field):
        for index, port in enumerate(container.get("ports", ())):
            here = f"{path}.ports[{index}]"
            others = ports.setdefault((port["containerPort"], port.get("protocol", "")), [])
            for other, another in others[:_MOST_PORTS]:
                yield from _port_conflict(here, port, other, another)
            others.append((here, port))
            name = port.get("name", "")
            if name in names and NO_GIT_REPOSITORIES in features:
                first = names[name]
                named.append(
                    f"{here}: duplicate port name {quoted_start(name)} with {first}, services and probes "
                    f"that select ports by name will use {first}"
                )
            elif name:
                names[name] = here
    yield from named


_MOST_PORTS: Final = 16  # entries of one port that each other one is compared with


def _port_conflict(here: str, port: Object, other: str, another: Object) -> Iterator[str]:
    address, host = port.get("hostIP", ""), port.get("hostPort", 0)
    address_before, host_before = another.get("hostIP", ""), another.get("hostPort", 0)
    if (address, host) == (address_before, host_before):
        yield f"{here}: duplicate port definition with {other}"
    elif not host or not host_before:
        yield f"{here}: overlapping port definition with {other}"
    elif host == host_before and bool(address) != bool(address_before):
        yield f"{here}: dangerously ambiguous port definition with {other}"


def _later_warnings(spec: Object, field: str, features: frozenset[str]) -> Iterator[str]:
    if spec.get("terminationGracePeriodSeconds", 0) < 0 and SECCOMP_FIELDS_ALONE in features:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{field}.terminationGracePeriodSeconds: {text}"
    if HIDDEN_IN_WARNINGS in features:
        for part in ("podAffinity", "podAntiAffinity"):
            affinity, here = spec.get("affinity", {}).get(part, {}), f"{field}.affinity.{part}"
            for index, term in enumerate(affinity.get(REQUIRED, ())):
                if "labelSelector" not in term:
                    yield f"{here}.{REQUIRED}[{index}].labelSelector: {_MATCHES_NO_POD}"
            for index, one in enumerate(affinity.get(PREFERRED, ())):
                if "labelSelector" not in one["podAffinityTerm"]:
                    yield f"{here}.{PREFERRED}[{index}].podAffinityTerm.labelSelector: {_MATCHES_NO_POD}"
    for index, server in enumerate(spec.get("dnsConfig", {}).get("nameservers", ())):
        yield from ip_warnings(features, f"{field}.dnsConfig.nameservers[{index}]", server)
    for index, alias in enumerate(spec.get("hostAliases", ())):
        yield from ip_warnings(features, f"{field}.hostAliases[{index}].ip", alias.get("ip", ""))


def _overlapping_paths(spec: Object, features: frozenset[str]) -> Iterator[str]:
    """Warn about files of one volume that would be in the place of others."""
    for volume in spec.get("volumes", ()):
        for part, name in (("configMap", "name"), ("secret", "secretName"), ("downwardAPI", "")):
            source = volume.get(part)
            if source and source.get("items"):
                kind = {"configMap": "ConfigMap", "secret": "Secret", "downwardAPI": "DownwardAPI"}[part]
                shown = f"{kind} {quoted_start(source.get(name, ''))}" if name else kind
                found = _overlaps([(item["path"].rstrip("/"), "") for item in source["items"]])
                start = f"volume {quoted_start(volume['name'])} ({shown}): overlapping paths:"
                yield from (f"{start} {one}" for one in found)
        if "projected" in volume:
            yield from _projected_overlaps(volume, features)


def _projected_overlaps(volume: Object, features: frozenset[str]) -> Iterator[str]:
    start, paths = f"volume {quoted_start(volume['name'])} (Projected)", list[tuple[str, str]]()
    found: list[tuple[str, str]] = []
    for source in volume["projected"].get("sources") or ():
        if not source:
            yield f"{start} has no sources provided"
            continue
        # Until 1.33, a source without paths counts as the one before it, as in Kubernetes.
        found = _paths_of_source(source) or ([] if OWN_PATHS in features else found)
        paths += [(path.rstrip("/"), shown) for path, shown in found]
    yield from (f"{start}: overlapping paths: {one}" for one in _overlaps(paths))


def _paths_of_source(source: Object) -> list[tuple[str, str]]:
    """The files of a projected source, of the first kind that it has, and how a message shows the source."""
    for part, kind in (("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI")):
        if items := source.get(part, {}).get("items"):
            name = f" {quoted_start(source[part].get('name', ''))}" if part != "downwardAPI" else ""
            return [(item["path"], f"{kind}{name}") for item in items]
    if "serviceAccountToken" in source:
        return [(source["serviceAccountToken"]["path"], "ServiceAccountToken")]
    if bundle := source.get("clusterTrustBundle"):
        name = bundle.get("name", bundle.get("signerName", ""))
        return [(bundle["path"], f"ClusterTrustBundle {quoted_start(name)}")]
    certificate = source.get("podCertificate", {})
    return [
        (path, f"PodCertificate {part}")
        for part, field in _CERTIFICATE_FILES.items()
        if (path := certificate.get(field))
    ]


_CERTIFICATE_FILES: Final = {
    "chain": "certificateChainPath",
    "key": "keyPath",
    "credential bundle": "credentialBundlePath",
}


def _overlaps(paths: list[tuple[str, str]]) -> Iterator[str]:
    """Yield pairs of paths of which one is the other, or is above it."""
    seen: dict[str, list[str]] = {}  # how a message shows the entries at a path and below it
    at: dict[str, list[str]] = {}
    for path, source in paths:
        shown = f"{quoted_start(path)} ({source})" if source else quoted_start(path)
        if not path:
            continue
        above = list(accumulate(path.split("/", _DEEPEST_PATH)[:-1], "{}/{}".format))
        found = [
            *seen.get(path, ())[:_MOST_PORTS],
            *(one for parent in above for one in at.get(parent, ())[:1]),
        ]
        yield from (f"{shown} with {one}" for one in found)
        for parent in (*above, path):
            seen.setdefault(parent, []).append(shown)
        at.setdefault(path, []).append(shown)


_DEEPEST_PATH: Final = 32


def _repeated_entries(spec: Object, field: str, features: frozenset[str]) -> Iterator[str]:
    yield from _duplicates(spec.get("hostAliases", ()), "ip", f"{field}.hostAliases")
    secrets = spec.get("imagePullSecrets", ())
    yield from _duplicates(secrets, "name", f"{field}.imagePullSecrets")
    for index, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{field}.imagePullSecrets[{index}].name: invalid empty name ""'
    if HIDDEN_IN_WARNINGS not in features:
        yield from _duplicates(spec.get("volumes", ()), "name", f"{field}.volumes")


def _duplicates(entries: Iterable[Object], part: str, field: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        value = entry.get(part, "")
        if value in seen:
            yield f"{field}[{index}].{part}: duplicate {part} {quoted_start(value)}"
        seen.add(value)


def _container_fractions(resources: Object, field: str) -> Iterator[str]:
    for name in _IN_BYTES:
        for part in ("limits", "requests"):
            yield from _fractions(resources.get(part, {}), f"{field}.{part}", name)


def _fractions(amounts: Object, field: str, *names: str) -> Iterator[str]:
    for name in names or _IN_BYTES:
        amount = amounts.get(name)
        if amount is None or (amount[-1] != "m" and amount.isalnum()):
            continue  # a whole number
        if nanos_of(amount) % NANOS:
            yield f"{field}[{name}]: fractional byte value {quoted_start(amount)} is invalid, must be an integer"
