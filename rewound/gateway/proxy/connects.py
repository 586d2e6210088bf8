"""Serves the subresources that connect to pods, services and nodes: proxy, exec, attach, portforward and log.

The steps are those of Kubernetes: decode the options from the query, let admission review them (operation CONNECT;
not for logs), find the address, and forward. The response has a `Forwarding`, which the client's connection runs.
Parameters that are not fields of the options are passed on to the target.
"""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote_from_bytes, unquote_to_bytes, urlencode

import trio

from rewound.actors.admission.chain import admit_ephemeral, validate_ephemeral
from rewound.actors.admission.request import CONNECT, AdmissionRequest
from rewound.actors.errors import BadRequest, Invalid, RequestError
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.connect_options import options_of
from rewound.actors.kinds.declaration.definition import Definition, Subresource
from rewound.actors.kinds.registry import Registry
from rewound.actors.kinds.schema.fields import BOOL, INT64, STRING, TIME, ListOf
from rewound.actors.kinds.validation import NEGATIVE, FieldErrors, collect, forbidden, invalid
from rewound.actors.kinds.values.times import canonical_seconds
from rewound.actors.messages import Object
from rewound.actors.nodes.agent import CommandResult, log_of, run_command, running_since
from rewound.actors.resource.directory import Directory
from rewound.actors.runtime.write_context import WriteContexts
from rewound.actors.store.reads import Reads
from rewound.gateway.message import Response, asks_upgrade
from rewound.gateway.outgoing.connections import Connections
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext, new_write_context
from rewound.gateway.pipeline.errors import failure_of
from rewound.gateway.proxy.forward import Adapter, Forward
from rewound.gateway.proxy.locations import Kubelets, Locations
from rewound.gateway.proxy.logs import LogAdapter
from rewound.gateway.proxy.rewriting import PageAdapter
from rewound.gateway.proxy.simulated import FollowedLog, SimulatedSession
from rewound.gateway.proxy.upstream import Target
from rewound.gateway.settings.settings import ProxySettings

# Encodes a path like Go does.
_UNESCAPED: Final = "/$&+,:;=@-_.~"
_LOG_OPTIONS: Final = options_of("PodLogOptions")
_LOG_SECONDS: Final = 1.0  # between two looks at the log of a simulated container that a client follows
_STREAM_FLAGS: Final = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"))


class Connects:
    def __init__(
        self,
        registry: Registry,
        reads: Reads,
        directory: Directory,
        write_contexts: WriteContexts,
        settings: ProxySettings,
        stopping: trio.Event,
    ) -> None:
        self._directory = directory
        self._write_contexts = write_contexts
        local = settings.allow_local_proxy_targets
        self._locations = Locations(registry, reads, Kubelets(settings), local_allowed=local)
        self._stopping = stopping
        self._connections = Connections(max_idle=0)  # each request has its own

    async def serve(
        self, context: RequestContext, definition: Definition, subresource: Subresource
    ) -> Response:
        if subresource.name == "log":
            return self._log(context)
        if context.parameters.all("dryRun"):
            raise BadRequest("dryRun is not supported")
        assert subresource.options is not None
        path = _subpath(context, definition) if subresource.name == "proxy" else ""
        query = context.parameters.values()
        options = decode_options(
            subresource.options, {**query, "path": [path]} if subresource.name == "proxy" else query
        )
        options = await self._admit(context, definition, subresource, options)
        if subresource.name == "proxy":
            return self._proxy(context, definition, options.get("path", ""))
        return self._stream(context, subresource.name, options)

    async def _admit(
        self, context: RequestContext, definition: Definition, subresource: Subresource, options: Object
    ) -> Object:
        """The options after admission."""
        chain = self._directory.admission_chain(definition, CONNECT, subresource.name)
        if not chain:
            return options
        route, write_context = context.route, new_write_context(self._write_contexts, context)
        namespace = route.namespace if definition.namespaced else ""
        request = AdmissionRequest(
            *(CONNECT, definition, namespace, route.name, subresource.name, options, None),
            *(write_context.user, False, write_context),
        )
        await admit_ephemeral(chain, request)
        await validate_ephemeral(chain, request)
        context.warnings.extend(request.warnings)
        return request.object or {}

    def _proxy(self, context: RequestContext, definition: Definition, path: str) -> Response:
        request, route = context.request, context.route
        joined = _joined(path)
        escaped = quote_from_bytes(joined.encode("utf-8", "surrogateescape"), _UNESCAPED)
        target = self._locations.proxied(definition, route.namespace, route.name, escaped, request.query)
        if not joined and request.method in ("GET", "HEAD") and not asks_upgrade(request):
            query = f"?{request.query}" if request.query else ""
            return Response(301, b"", b"", [(b"location", f"{request.path}/{query}".encode("latin-1"))])
        prefix = _prefix(request.path, definition)
        host = request.headers.get(b"host", b"").decode("latin-1")
        return self._forward(context, target, PageAdapter(prefix, escaped, target.authority, host))

    def _stream(self, context: RequestContext, action: str, options: Object) -> Response:
        """exec, attach and portforward: upgrades that are served by the kubelet of the pod's node."""
        route = context.route
        pod = self._locations.read_pod(route.namespace, route.name)
        if self._locations.is_simulated(pod):
            return self._simulated_stream(context, action, pod, options)
        path = f"{route.namespace}/{route.name}"
        if action == "portforward":
            ports = ",".join(str(one) for one in options.get("ports", ()))
            action, query = "portForward", urlencode({"port": ports}) if ports else ""
        else:
            path += f"/{_container(pod, options)}"
            flags = [(shown, "1") for name, shown in _STREAM_FLAGS if options.get(name)]
            commands = [("command", one) for one in options.get("command") or ()]
            query = urlencode(sorted([*flags, *commands], key=lambda pair: pair[0]))
        target = self._locations.kubelet(pod, f"/{action}/{path}", query)
        if target is None:
            raise BadRequest(f"pod {route.name} does not have a host assigned")
        return self._forward(context, target, Adapter(), upgrade_required=True)

    def _simulated_stream(
        self, context: RequestContext, action: str, pod: Object, options: Object
    ) -> Response:
        """exec and attach in a simulated container, whose annotations say what is printed. Raises BadRequest."""
        if action == "portforward":
            raise BadRequest(f"pod {pod['metadata']['name']} is simulated: no program listens on its ports")
        container = _container(pod, options)
        if action == "attach":
            ran = CommandResult(log_of(pod, container, {}, self._write_contexts.now()).decode())
        else:
            ran = run_command(pod, container)
        session = SimulatedSession(context.request, options, ran, partial(_failed, context))
        return Response(200, b"", forwarding=session)

    def _log(self, context: RequestContext) -> Response:
        route = context.route
        options = decode_options(_LOG_OPTIONS, context.parameters.values())
        check_log_options(route.name, options)
        pod = self._locations.read_pod(route.namespace, route.name)
        container = _container(pod, options)
        if self._locations.is_simulated(pod):
            text = log_of(pod, container, options, self._write_contexts.now())
            if options.get("follow") and not options.get("previous") and running_since(pod, container):
                return Response(
                    200, b"", forwarding=FollowedLog(self._followed(pod, container, options, text))
                )
            return Response(200, text, b"text/plain")
        sent = [
            (name, "true" if value is True else str(value))
            for name, value in sorted(options.items())
            if name not in ("container", "insecureSkipTLSVerifyBackend")
        ]
        target = self._locations.kubelet(
            pod,
            f"/containerLogs/{route.namespace}/{route.name}/{container}",
            urlencode(sent),
            verified=not options.get("insecureSkipTLSVerifyBackend"),
        )
        if target is None:
            return Response(204, b"", b"")  # nothing runs yet
        return self._forward(context, target, LogAdapter(route.name), own_request=True)

    async def _followed(
        self, pod: Object, container: str, options: Object, sent: bytes
    ) -> AsyncIterator[bytes]:
        """The log of a simulated container, and what is added to it until the container ends."""
        metadata, begun = pod["metadata"], running_since(pod, container)
        left = options.get("limitBytes")
        options = {"timestamps": options.get("timestamps")}
        whole = log_of(pod, container, options, 0)
        yield sent
        while not self._stopping.is_set():
            with trio.move_on_after(_LOG_SECONDS):
                await self._stopping.wait()
            try:
                pod = self._locations.read_pod(metadata["namespace"], metadata["name"])
            except RequestError:
                return  # it is gone
            if pod["metadata"]["uid"] != metadata["uid"]:
                return
            now = log_of(pod, container, options, 0) if running_since(pod, container) == begun else whole
            added = now[len(whole) :] if now.startswith(whole) else now  # the annotation may be another text
            sent, whole = sent + added, now
            if left is not None and len(sent) > left:
                yield added[: left - len(sent)]
                return
            if added:
                yield added
            if running_since(pod, container) != begun:
                return

    def _forward(
        self,
        context: RequestContext,
        target: Target,
        adapter: Adapter,
        *,
        upgrade_required: bool = False,
        own_request: bool = False,
    ) -> Response:
        forward = Forward(
            context.request,
            target,
            adapter,
            self._stopping,
            partial(_failed, context),
            warnings=tuple(render.warnings_of(context)),
            upgrade_required=upgrade_required,
            own_request=own_request,
            connections=self._connections,
        )
        return Response(200, b"", forwarding=forward)


async def _failed(context: RequestContext, error: RequestError) -> Response:
    failure = failure_of(error)
    assert failure is not None
    return await render.failure(context, failure)


def _segments(raw: str) -> list[bytes]:
    return unquote_to_bytes(raw).strip(b"/").split(b"/")


def _depth(definition: Definition) -> int:
    """How many segments a path has up to the subresource: /api/v1[/namespaces/<name>]/<plural>/<name>/proxy."""
    return 7 if definition.namespaced else 5


def _subpath(context: RequestContext, definition: Definition) -> str:
    """The path below /proxy, decoded, with the final slash of the request."""
    raw = context.request.path
    rest = b"/".join(_segments(raw)[_depth(definition) :])
    path = b"/" + rest if rest else b""
    if raw.endswith("/") and not path.endswith(b"/"):
        path += b"/"
    return path.decode("utf-8", "surrogateescape")


def _joined(path: str) -> str:
    """The path without empty segments, "." and "..", but with its final slash."""
    if not path:
        return ""
    joined = posixpath.normpath("/" + path.lstrip("/"))
    return joined + "/" if path.endswith("/") and joined != "/" else joined


def _prefix(raw: str, definition: Definition) -> str:
    """The path of the proxy itself, percent-encoded as it was sent."""
    return "/" + "/".join(raw.strip("/").split("/")[: _depth(definition)])


def _container(pod: Object, options: Object) -> str:
    """The container that the options name, or the only one. Raises BadRequest if there is no such container."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    wanted: str = options.get("container", "")
    kinds = ("initContainers", "containers", "ephemeralContainers")
    known = [str(one["name"]) for kind in kinds for one in spec.get(kind) or ()]
    if wanted:
        if wanted not in known:
            raise BadRequest(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(spec["containers"]) == 1:
        return str(spec["containers"][0]["name"])
    raise BadRequest(f"a container name must be specified for pod {name}, choose one of: [{' '.join(known)}]")


_INT64: Final = (-(1 << 63), (1 << 63) - 1)
_PORTS: Final = (0, 65535)
_POSITIVE: Final = "must be greater than 0"


def decode_options(definition: Definition, query: Mapping[str, Sequence[str]]) -> Object:
    """The options in a query. Raises BadRequest."""
    found: Object = {}
    for field in definition.fields.fields:
        values = query.get(field.name)
        if values:
            value = _decoded(field.type, values)
            if value or field.pointer:
                found[field.name] = value
    return found


def _decoded(kind: Any, values: Sequence[str]) -> Any:
    first = values[0]
    if kind is STRING:
        return first
    if kind is BOOL:
        return first.lower() not in ("false", "0")
    if kind is INT64:
        return _integer(first)
    if kind is TIME:
        return _time(first)
    assert isinstance(kind, ListOf)
    if kind.item is STRING:
        return list(values)
    return [_port(one) for value in values for one in value.split(",")]


def _integer(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise BadRequest(f"strconv.ParseInt: parsing {quoted_start(text)}: invalid syntax")
    value = int(text) if len(text) < 32 else _INT64[1] + 1
    if not _INT64[0] <= value <= _INT64[1]:
        raise BadRequest(f"strconv.ParseInt: parsing {quoted_start(text)}: value out of range")
    return value


def _port(text: str) -> int:
    shown = f"cannot convert to []int32: strconv.ParseUint: parsing {quoted_start(text)}"
    if not (text.isascii() and text.isdigit()):
        raise BadRequest(f"{shown}: invalid syntax")
    if len(text) > 9 or int(text) > _PORTS[1]:
        raise BadRequest(f"{shown}: value out of range")
    return int(text)


def _time(text: str) -> str:
    try:
        return canonical_seconds(text) or text
    except ValueError as error:
        raise BadRequest(str(error)) from None


def check_log_options(name: str, options: Object) -> None:
    """Raises Invalid if the options contradict each other."""
    if found := collect(_log_rules, options):
        raise Invalid("", "PodLogOptions", name, [one.cause() for one in found])


def _log_rules(errors: FieldErrors, options: Object) -> None:
    tail, limit, since = (options.get(one) for one in ("tailLines", "limitBytes", "sinceSeconds"))
    if tail is not None and tail < 0:
        errors.add(invalid("tailLines", tail, NEGATIVE))
    if limit is not None and limit < 1:
        errors.add(invalid("limitBytes", limit, _POSITIVE))
    if since is not None and "sinceTime" in options:
        errors.add(forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif since is not None and since < 1:
        errors.add(invalid("sinceSeconds", since, _POSITIVE))
