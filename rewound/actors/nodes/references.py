"""What a pod needs of other objects before it runs, and what is missing of it.

Volumes need their Secrets, ConfigMaps and bound claims before anything starts, and devices their allocated claims; a
container needs those that its environment names. A node reads them when it starts a pod: one object once, not for each
of the thousands of variables that may refer to it. `References.missing` collects what was not found, for the node to
look again when it changes.

Users determine how many references there are, and how large the objects are: all work is in steps.
"""

from __future__ import annotations

import base64
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from rewound.actors.golang.quoting import quoted
from rewound.actors.messages import Object
from rewound.actors.runtime.steps import Steps
from rewound.actors.workloads.resource_claims import claim_name, is_made_for, is_reserved_for, made_claims

SECRETS, CONFIG_MAPS, CLAIMS, RUNTIME_CLASSES, DEVICE_CLAIMS = (
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "runtimeclasses",
    "resourceclaims",
)
# Every namespace has it, if anybody publishes it: pods do not wait for it here.
_ROOT_CERTIFICATE: Final = "kube-root-ca.crt"

# What a node makes of Services, resources and addresses is not known here: such a variable counts as one with a value.
_UNKNOWN: Final = "unknown"
_REMEMBERED: Final = 16  # objects of one look at a pod: they may have a megabyte each
_STRIDE: Final = 16  # references between two pauses, besides one for each object that is read
_OF_SERVICE: Final = re.compile(r"[A-Z0-9_]+_(SERVICE|PORT)(_.*)?")
_OF_METADATA: Final = re.compile(r"metadata\.(annotations|labels)\['(.*)'\]")
# `$$` is a dollar sign, which stands for nothing else.
_VARIABLE: Final = re.compile(r"\$\$|\$\(([^)]*+)\)")
_ESCAPED: Final = re.compile(r"\$\$(?P<name>(?!))?+")
_LONGEST_VALUE: Final = 128 << 10  # characters of a variable, as Linux limits its bytes


class Reference(NamedTuple):
    resource: str
    namespace: str
    name: str


Find = Callable[[Reference], Object | None]


class _Known(NamedTuple):
    found: Object | None
    keys: frozenset[str]  # of its data


class References:
    """The objects that one pod refers to."""

    def __init__(self, pod: Object, find: Find) -> None:
        self._pod, self._find = pod, find
        self._namespace: str = pod["metadata"]["namespace"]
        self._known: OrderedDict[Reference, _Known] = OrderedDict()
        self.missing: set[Reference] = set()

    def _get(self, resource: str, name: str, namespace: str | None = None) -> Steps[_Known]:
        reference = Reference(resource, self._namespace if namespace is None else namespace, name)
        known = self._known.get(reference)
        if known is None:
            yield
            found = self._find(reference)
            known = self._known[reference] = _Known(found, frozenset() if found is None else _keys(found))
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            yield
        if known.found is None:
            self.missing.add(reference)
        return known

    def volume_problems(self) -> Steps[dict[str, str]]:
        """Volumes that cannot be set up, with the reason."""
        problems: dict[str, str] = {}
        for volume, source, content in self._mounted():
            if source in ("secret", "configMap"):
                name = content.get("secretName") or content.get("name")
                problem = yield from self._content_problem(source, content, name)
            else:
                problem = yield from self._projected_problem(source, content)
            if problem:
                problems[volume["name"]] = problem
            yield
        return problems

    def _projected_problem(self, source: str, content: Object) -> Steps[str]:
        for part in (content.get("sources") or ()) if source == "projected" else ():
            for kind in ("secret", "configMap"):
                if kind in part:
                    problem = yield from self._content_problem(kind, part[kind], part[kind].get("name"))
                    if problem:
                        return problem
            yield
        return ""

    def claim_problems(self) -> Steps[dict[str, str]]:
        """Volumes whose claims cannot be used, with the reason."""
        problems: dict[str, str] = {}
        for volume, source, content in self._mounted():
            name = content.get("claimName") if source == "persistentVolumeClaim" else None
            if source == "ephemeral":
                name = f"{self._pod['metadata']['name']}-{volume['name']}"
            if not name:
                continue
            claim = (yield from self._get(CLAIMS, name)).found
            if claim is None:
                problem = (
                    f"failed to fetch PVC from API server: persistentvolumeclaims {quoted(name)} not found"
                )
            elif (claim.get("status") or {}).get("phase") == "Bound":
                continue
            else:
                problem = "PVC is not bound"
                self.missing.add(Reference(CLAIMS, self._namespace, name))
            problems[volume["name"]] = f"error processing PVC {self._namespace}/{name}: {problem}"
        return problems

    def mounted_volumes(self) -> list[str]:
        return [volume["name"] for volume, _, _ in self._mounted()]

    def _mounted(self) -> Iterator[tuple[Object, str, Object]]:
        """The volumes that containers use: each with its source and the content of that."""
        spec = self._pod["spec"]
        if not spec.get("volumes"):
            return
        used = {
            mount["name"]
            for kind in ("containers", "initContainers", "ephemeralContainers")
            for container in spec.get(kind) or ()
            for mounts in ("volumeMounts", "volumeDevices")
            for mount in container.get(mounts) or ()
        }
        for volume in spec["volumes"]:
            if volume["name"] in used:
                source, content = next(
                    ((key, value) for key, value in volume.items() if key != "name"), ("", {})
                )
                yield volume, source, content or {}

    def environment_problem(self, container: Object) -> Steps[str]:
        """Why the environment of a container cannot be made; "" if it can."""
        for number, source in enumerate(container.get("envFrom") or (), 1):
            for kind, reference in (("configMap", "configMapRef"), ("secret", "secretRef")):
                if (content := source.get(reference)) is not None:
                    problem = yield from self._content_problem(kind, content, content.get("name"))
                    if problem:
                        return problem
            if number % _STRIDE == 0:
                yield
        for number, variable in enumerate(container.get("env") or (), 1):
            value = variable.get("valueFrom") or {}
            for kind, reference in (("configMap", "configMapKeyRef"), ("secret", "secretKeyRef")):
                if (content := value.get(reference)) is not None:
                    problem = yield from self._key_problem(kind, content)
                    if problem:
                        return problem
            if number % _STRIDE == 0:
                yield
        return ""

    def mount_problem(self, container: Object) -> Steps[str]:
        """Why the path that a mount takes from the environment cannot be used; "" if it can."""
        mounts = [mount for mount in container.get("volumeMounts") or () if mount.get("subPathExpr")]
        if not mounts:
            return ""
        try:
            return (yield from self._path_problem(container, mounts))
        except _TooLong:
            return f"argument list too long: a variable has more than {_LONGEST_VALUE} characters"

    def _path_problem(self, container: Object, mounts: list[Object]) -> Steps[str]:
        environment = yield from self._environment(container)
        for mount in mounts:
            yield
            names = {found[1] for found in _references(mount["subPathExpr"]) if found[1] is not None}
            missing = sorted(name for name in names if not _value(environment, name))
            if missing:
                return f"missing value for {', '.join(missing)}"
            path = _expanded(mount["subPathExpr"], environment)
            if path.startswith("/"):
                return f"error SubPath `{path}` must not be an absolute path"
            if ".." in path.split("/"):
                return f"unable to provision SubPath `{path}`: must not contain '..'"
        return ""

    def _environment(self, container: Object) -> Steps[dict[str, str]]:
        """The variables of a container whose references were found."""
        environment: dict[str, str] = {}
        for source in container.get("envFrom") or ():
            for resource, reference in ((CONFIG_MAPS, "configMapRef"), (SECRETS, "secretRef")):
                if reference in source:
                    known = yield from self._get(resource, source[reference].get("name", ""))
                    content = _content(resource, known.found)
                    environment |= {f"{source.get('prefix', '')}{key}": content[key] for key in content}
                    yield
        for number, variable in enumerate(container.get("env") or (), 1):
            if number % _STRIDE == 0:
                yield
            value = yield from self._value_from(variable.get("valueFrom") or {})
            if variable.get("value"):
                value = _expanded(variable["value"], environment)
            if value is not None:
                environment[variable["name"]] = value
        return environment

    def _value_from(self, source: Object) -> Steps[str | None]:
        for resource, reference in ((CONFIG_MAPS, "configMapKeyRef"), (SECRETS, "secretKeyRef")):
            if reference in source:
                known = yield from self._get(resource, source[reference].get("name", ""))
                value = ((known.found or {}).get("data") or {}).get(source[reference]["key"])
                return value if value is None or resource == CONFIG_MAPS else _decoded(value)
        if "fieldRef" not in source:
            return _UNKNOWN if source else ""
        path, metadata = source["fieldRef"]["fieldPath"], self._pod["metadata"]
        if one := _OF_METADATA.fullmatch(path):
            return str((metadata.get(one[1]) or {}).get(one[2], ""))
        part, _, name = path.partition(".")
        return str(self._pod[part].get(name, "")) if part in ("metadata", "spec") else _UNKNOWN

    def runtime_problem(self, handlers: frozenset[str] | None) -> Steps[str]:
        """Why the RuntimeClass of the pod cannot be used; `handlers` are those of the node, None: all."""
        name = self._pod["spec"].get("runtimeClassName")
        if not name:
            return ""
        found = (yield from self._get(RUNTIME_CLASSES, name, "")).found
        if found is None:
            return f"failed to get RuntimeClass {quoted(name)}: runtimeclass {quoted(name)} not found"
        handler = found.get("handler", "")
        if handlers is None or handler in handlers:
            return ""
        problem = f"failed to get sandbox runtime: no runtime for {quoted(handler)} is configured"
        return f"rpc error: code = Unknown desc = {problem}"

    def device_problem(self, group: str) -> Steps[str]:
        """Why the devices of the pod cannot be prepared: its claims, of this group, must be reserved and allocated."""
        wanted = list(self._pod["spec"].get("resourceClaims") or ())
        if (extended := (self._pod.get("status") or {}).get("extendedResourceClaimStatus")) is not None:
            wanted.append({"name": "", "resourceClaimName": extended["resourceClaimName"]})
        made = made_claims(self._pod)
        for one in wanted:
            problem = yield from self._claim_problem(one, made, group)
            if problem:
                return problem
        return ""

    def _claim_problem(self, wanted: Object, made: Mapping[str, str | None], group: str) -> Steps[str]:
        pod, namespace = self._pod["metadata"]["name"], self._namespace
        try:
            name = claim_name(made, wanted)
        except KeyError:
            return f'pod "{namespace}/{pod}": ResourceClaim not created yet'
        if name is None:
            return ""
        claim = (yield from self._get(DEVICE_CLAIMS, name)).found
        if claim is None:
            missing = f"resourceclaims.{group} {quoted(name)} not found"
            return f"fetch ResourceClaim {name}: {missing}"
        problem = ""
        if "resourceClaimTemplateName" in wanted and not is_made_for(claim, self._pod):
            where = f"{namespace}/{name} was not created for Pod {namespace}/{pod}"
            problem = f"ResourceClaim {where} (Pod is not owner)"
        elif not is_reserved_for(claim, self._pod):
            uids = self._pod["metadata"]["uid"], claim["metadata"]["uid"]
            problem = f"pod {pod} ({uids[0]}) is not allowed to use ResourceClaim {name} ({uids[1]})"
        elif "allocation" not in claim["status"]:
            problem = f"ResourceClaim {name}: not allocated"
        if problem:
            self.missing.add(Reference(DEVICE_CLAIMS, namespace, name))
        return problem

    def _content_problem(self, kind: str, content: Object, name: str | None) -> Steps[str]:
        if content.get("optional") or not name or name == _ROOT_CERTIFICATE:
            return ""
        known = yield from self._get(SECRETS if kind == "secret" else CONFIG_MAPS, name)
        if known.found is None:
            return f"{kind.lower()} {quoted(name)} not found"
        for number, item in enumerate(content.get("items") or (), 1):
            if number % _STRIDE == 0:
                yield
            if item["key"] not in known.keys:
                self.missing.add(
                    Reference(SECRETS if kind == "secret" else CONFIG_MAPS, self._namespace, name)
                )
                word = "secret" if kind == "secret" else "config"
                return f"references non-existent {word} key: {item['key']}"
        return ""

    def _key_problem(self, kind: str, content: Object) -> Steps[str]:
        if content.get("optional"):
            return ""
        name, key = content.get("name", ""), content.get("key", "")
        resource = SECRETS if kind == "secret" else CONFIG_MAPS
        known = yield from self._get(resource, name)
        if known.found is None:
            return f"{kind.lower()} {quoted(name)} not found"
        if key not in known.keys:
            self.missing.add(Reference(resource, self._namespace, name))
            word = "Secret" if kind == "secret" else "ConfigMap"
            return f"couldn't find key {key} in {word} {self._namespace}/{name}"
        return ""


def _keys(found: Object) -> frozenset[str]:
    return frozenset((*(found.get("data") or ()), *(found.get("binaryData") or ())))


def _content(resource: str, found: Object | None) -> dict[str, str]:
    data = (found or {}).get("data") or {}
    if resource == CONFIG_MAPS:
        return dict(data)
    return {key: _decoded(value) for key, value in data.items()}


def _decoded(value: str) -> str:
    return base64.b64decode(value).decode(errors="replace")


def _value(environment: dict[str, str], name: str) -> str | None:
    return environment.get(name, _UNKNOWN if _OF_SERVICE.fullmatch(name) else None)


class _TooLong(Exception):
    """A variable that no process can have. Variables that contain others twice would take all memory."""


def _references(text: str) -> Iterator[re.Match[str]]:
    """Each `$$` and `$(NAME)`. After the last parenthesis none ends, so none is looked for."""
    end = text.rfind(")") + 1
    yield from _VARIABLE.finditer(text, 0, end)
    yield from _ESCAPED.finditer(text, end)


def _expanded(text: str, environment: dict[str, str]) -> str:
    """With its `$(NAME)` replaced; one without a value stays as it is. Raises _TooLong."""
    parts: list[str] = []
    at, size = 0, len(text)
    if size > _LONGEST_VALUE:
        raise _TooLong
    for found in _references(text):
        value = "$" if found[1] is None else _value(environment, found[1])
        parts += (text[at : found.start()], found[0] if value is None else value)
        at, size = found.end(), size + len(parts[-1]) - len(found[0])
        if size > _LONGEST_VALUE:
            raise _TooLong
    return "".join((*parts, text[at:]))
