"""`rewound scale`: fill a cluster with objects from templates, or empty it.

    rewound scale nodes 1000
    rewound scale pods 5000 --nodes 1000 -n load
    rewound scale pods 200 --name web --param '.containers[0].image=web:1'
    rewound scale gadgets 50 --template gadgets.yaml --param .size=3

Makes the cluster have so many objects of a template: it creates those that are missing, and deletes the newest of too
many. Repeated, it does nothing. The objects are NAME-000000, NAME-000001 and so on, with the label
kwok.x-k8s.io/kwokctl-scale=NAME; only those are counted and deleted. With --nodes, that many nodes come first.

A template is a KwokctlResource of kwok: metadata.name, parameters, and a Go template with the functions Name,
Namespace, Index, AddIP and AddCIDR. There are two without a file: node, a simulated node, and pod.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from itertools import count as counting
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from rewound.cli.access.flags import Options, Parser, add_connection, open_session
from rewound.cli.command import run_command
from rewound.client.errors import ClientError, Failure, StatusError, UsageError

if TYPE_CHECKING:
    from rewound.actors.stages.templates import Template
    from rewound.client.session import Session

LABEL: Final = "kwok.x-k8s.io/kwokctl-scale"
MOST: Final = 1_000_000
_PAGE: Final = 500
_AT_ONCE: Final = 32  # writes, which one commit carries together
_RESULTS: Final = _AT_ONCE * 8  # how many may wait
_ASSIGNMENT: Final = re.compile(r"\s*(\.[^=]+?)\s*=\s*(.*)", re.DOTALL)
_PART: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\.?\[\"([^\"]+)\"\]|\.?\[(\d+)\]")

_NODE: Final = """
apiVersion: v1
kind: Node
metadata:
  name: {{ Name }}
  annotations:
    kwok.x-k8s.io/node: fake
  labels:
    kubernetes.io/hostname: {{ Name }}
    kubernetes.io/arch: {{ .architecture }}
    kubernetes.io/os: linux
    topology.kubernetes.io/zone: {{ index .zones (mod Index (len .zones)) }}
status:
  capacity: {{ toJson .capacity }}
  allocatable: {{ toJson (or .allocatable .capacity) }}
"""
_POD: Final = """
apiVersion: v1
kind: Pod
metadata:
  name: {{ Name }}
  namespace: {{ or Namespace "default" }}
  labels: {{ toJson .labels }}
  annotations: {{ toJson .annotations }}
spec:
  containers: {{ toJson .containers }}
  initContainers: {{ toJson .initContainers }}
  nodeName: {{ Quote .nodeName }}
  {{ if .nodeSelector }}nodeSelector: {{ toJson .nodeSelector }}{{ end }}
"""
_BUILT_IN: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "node": (
        {
            "architecture": "amd64",
            "zones": ["a", "b", "c"],
            "capacity": {"cpu": "32", "memory": "256Gi", "pods": "110"},
            "allocatable": {},
        },
        _NODE,
    ),
    "pod": (
        {
            "labels": {},
            "annotations": {},
            "containers": [{"name": "container-0", "image": "busybox"}],
            "initContainers": [],
            "nodeName": "",
            "nodeSelector": {},
        },
        _POD,
    ),
}


def scale(arguments: Sequence[str]) -> int:
    parser = Parser("rewound scale", __doc__)
    add_flags(parser)
    failures = ((UsageError, 2), ((ClientError, Failure, OSError), 1))
    return run_command(lambda: run(parser.parse_args(arguments)), failures)


def add_flags(parser: Parser) -> None:
    parser.add_argument(
        "resource", metavar="RESOURCE", help="nodes, pods, or the name of a template of --template"
    )
    parser.add_argument("count", type=_count, metavar="COUNT", help="how many there shall be; 0 deletes all")
    parser.add_argument(
        "--name", default="", metavar="NAME", help="beginning of the names (default: the template's)"
    )
    parser.add_argument("--nodes", type=_count, metavar="COUNT", help="first make so many nodes")
    parser.add_argument(
        "--template",
        type=Path,
        metavar="FILE",
        help="with KwokctlResource documents, instead of the built-in ones",
    )
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="replace a parameter of the template, such as .capacity.cpu=8; the value is JSON, or text",
    )
    parser.add_argument("--serial-length", type=_count, default=6, metavar="DIGITS", help="(default 6)")
    add_connection(parser)


def _count(text: str) -> int:
    import argparse

    if not (text.isascii() and text.isdigit()) or int(text) > MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {MOST:,}")
    return int(text)


def run(options: Options) -> int:
    from rewound.client.discovery import Discovery

    with open_session(options) as session:
        templates = _templates(options.template, Discovery(session).names().key_domain)
        wanted = _find(templates, options.resource).with_parameters(options.param)
        if options.nodes is not None:
            _scale(session, _find(templates, "node"), "node", "", options.nodes, options.serial_length)
        name = options.name or wanted.name
        _scale(session, wanted, name, options.namespace, options.count, options.serial_length)
    return 0


@dataclass(frozen=True, slots=True)
class ScaleTemplate:
    name: str
    parameters: Any
    template: Template

    def with_parameters(self, assignments: Iterable[str]) -> ScaleTemplate:
        parameters = self.parameters
        for text in assignments:
            parameters = _assigned(parameters, text)
        return ScaleTemplate(self.name, parameters, self.template)

    def manifest(self, name: str, namespace: str, index: int) -> dict[str, Any]:
        from rewound.actors.access.remote.yaml_file import NotYaml, load_yaml
        from rewound.actors.stages.templates import TemplateError, template_budget

        functions: dict[str, Callable[..., Any]] = {
            "Name": lambda: name,
            "Namespace": lambda: namespace,
            "Index": lambda: index,
            "AddIP": lambda address, number: str(ip_address(address) + number),
            "AddCIDR": _moved_network,
        }
        try:
            text = self.template.render(self.parameters, functions, template_budget())
            found = load_yaml(text.encode())
        except (TemplateError, NotYaml, ValueError) as error:
            raise Failure(f"the template {self.name} cannot be used: {error}") from error
        if not isinstance(found, dict) or not found.get("apiVersion") or not found.get("kind"):
            raise Failure(f"the template {self.name} makes no object with apiVersion and kind")
        return found


def _moved_network(network: str, number: int) -> str:
    """The network that follows another after so many of its size."""
    first = ip_network(network, strict=False)
    return f"{first.network_address + number * first.num_addresses}/{first.prefixlen}"


def _templates(path: Path | None, domain: str) -> dict[str, ScaleTemplate]:
    """The built-in templates and those of a file; `domain` is that of the server's labels."""
    from rewound.actors.access.remote.yaml_file import NotYaml, load_yaml
    from rewound.actors.stages.templates import Template, TemplateError

    found = {
        name: ScaleTemplate(name, given, Template(text.replace("kubernetes.io/", f"{domain}/")))
        for name, (given, text) in _BUILT_IN.items()
    }
    if path is None:
        return found
    for number, text in enumerate(re.split(r"(?m)^---\s*$", path.read_text()), 1):
        try:
            document = load_yaml(text.encode())
            if document is None:
                continue
            if not isinstance(document, dict) or document.get("kind") != "KwokctlResource":
                raise Failure("is no KwokctlResource")
            name = document["metadata"]["name"]
            found[name] = ScaleTemplate(
                name, document.get("parameters") or {}, Template(document["template"])
            )
        except (NotYaml, TemplateError, KeyError, TypeError, Failure) as error:
            raise Failure(f"--template: {path}: document {number}: {error}") from error
    return found


def _find(templates: dict[str, ScaleTemplate], resource: str) -> ScaleTemplate:
    for name in (resource, resource.removesuffix("s")):
        if name in templates:
            return templates[name]
    known = ", ".join(sorted(templates))
    raise UsageError(
        f"there is no template {resource!r}; there are {known}, and --template adds those of a file"
    )


def _assigned(parameters: Any, text: str) -> Any:
    """Parameters with one value replaced: `.containers[0].image=web:1`."""
    import orjson

    matched = _ASSIGNMENT.fullmatch(text)
    parts = list(_PART.finditer(matched[1])) if matched else []
    if matched is None or "".join(part[0] for part in parts) != matched[1]:
        raise UsageError(f"--param: {text!r} is not like .capacity.cpu=8 or '.containers[0].image=web:1'")
    try:
        value = orjson.loads(matched[2])
    except ValueError:
        value = matched[2]
    keys = [part[1] or part[2] or int(part[3]) for part in parts]

    def replaced(of: Any, keys: Sequence[str | int]) -> Any:
        if not keys:
            return value
        key, *rest = keys
        if isinstance(key, int):
            items = list(of) if isinstance(of, list) else []
            if key > len(items):
                raise UsageError(f"--param: {text!r}: the list has {len(items)} items")
            items[key : key + 1] = [replaced(items[key] if key < len(items) else None, rest)]
            return items
        known = of if isinstance(of, dict) else {}
        return {**known, key: replaced(known.get(key), rest)}

    return replaced(parameters, keys)


def _scale(
    session: Session, template: ScaleTemplate, name: str, namespace: str, count: int, digits: int
) -> None:
    if count > 1 and not digits:
        raise UsageError("--serial-length: 0 is for a single object; names of more need digits")

    def object_name(index: int) -> str:
        return f"{name}-{index:0{digits}d}" if digits else name

    first = template.manifest(object_name(0), namespace, 0)
    place = namespace or first.get("metadata", {}).get("namespace", "")
    path, namespaced, plural = _path(session, first, place)
    existing = sorted(_existing(session, path, name))
    names = {one for _, one in existing}
    if len(existing) > count:
        gone = [one for _, one in existing[count:]]
        failed = _each(gone, lambda one: _delete(session, f"{path}/{one}"))
        _report(plural, name, len(gone) - len(failed), "deleted", count, failed)
        return
    indexes = islice((i for i in counting() if object_name(i) not in names), count - len(existing))

    def create(index: int) -> None:
        made = template.manifest(object_name(index), place, index)
        metadata = {**(made.get("metadata") or {}), "name": object_name(index)}
        metadata["labels"] = {**(metadata.get("labels") or {}), LABEL: name}
        if namespaced:
            metadata["namespace"] = place or "default"
        session.post(path, {**made, "metadata": metadata})

    failed = _each(indexes, lambda index: _create(create, index))
    _report(plural, name, count - len(existing) - len(failed), "created", count, failed)


def _create(create: Callable[[int], None], index: int) -> None:
    try:
        create(index)
    except StatusError as error:
        if error.code != 409:  # somebody else has created it
            raise


def _delete(session: Session, path: str) -> None:
    try:
        session.delete(path)
    except StatusError as error:
        if error.code != 404:
            raise


def _report(plural: str, name: str, done: int, verb: str, count: int, failed: Sequence[Exception]) -> None:
    if done or not failed:
        print(
            f"{plural} {name}: {done:,} {verb}, {count:,} wanted"
            if done
            else f"{plural} {name}: {count:,} exist"
        )
    if failed:
        raise Failure(f"{len(failed):,} {plural} were not {verb}; the first error: {failed[0]}")


def _path(session: Session, made: dict[str, Any], namespace: str) -> tuple[str, bool, str]:
    version = made["apiVersion"]
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    for one in session.get(prefix).get("resources", ()):
        if one["kind"] == made["kind"] and "/" not in one["name"]:
            plural: str = one["name"]
            if not one["namespaced"]:
                return f"{prefix}/{plural}", False, plural
            return f"{prefix}/namespaces/{namespace or 'default'}/{plural}", True, plural
    raise Failure(f"the server has no kind {made['kind']} in {version}; add its definition first")


def _existing(session: Session, path: str, name: str) -> Iterator[tuple[str, str]]:
    """The creation times and names of the objects that this command has created."""
    following = ""
    while True:
        query = {"labelSelector": f"{LABEL}={name}", "limit": str(_PAGE)}
        if following:
            query["continue"] = following
        page = session.request("GET", path, query=query)
        for one in page.get("items", ()):
            yield one["metadata"]["creationTimestamp"], one["metadata"]["name"]
        following = (page.get("metadata") or {}).get("continue", "")
        if not following:
            return


def _each(items: Iterable[Any], work: Callable[[Any], None]) -> list[Exception]:
    """Call `work` for every item, a few at a time; returns the errors. Stops early if all of the first fail."""
    remaining, lock = iter(items), Lock()
    failed: list[Exception] = []
    done = 0

    def worker() -> None:
        nonlocal done
        while len(failed) < _RESULTS or done:
            with lock:
                item = next(remaining, None)
            if item is None:
                return
            try:
                work(item)
                done += 1
            except (ClientError, Failure) as error:
                failed.append(error)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for one in [pool.submit(worker) for _ in range(_AT_ONCE)]:
            one.result()
    return failed
