"""Aggregated discovery: all groups with all their resources in one document, for clients that ask for it.

    Accept: application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList

It saves clients a request for every version of every group. The document is not cached: it takes a millisecond, and
clients seldom download it, because they cache it by its ETag.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from actors.kinds.declaration.definition import Definition, Subresource
from actors.names import REWIND_GROUP
from gateway.describe.discovery import Discovery, Document
from gateway.describe.rewind_group import aggregated_resources
from gateway.message import Response
from gateway.pipeline import render
from gateway.pipeline.context import RequestContext
from gateway.wire import etags
from gateway.wire.negotiate import DISCOVERY_LIST


async def aggregated(context: RequestContext, discovery: Discovery, path: str) -> Response:
    """The named groups at /apis, or the core group at /api."""
    representation = context.representation
    document = {
        "kind": DISCOVERY_LIST,
        "apiVersion": f"{representation.as_group}/{representation.as_version}",
        "metadata": {},
        "items": list(_groups(discovery, core=path.strip("/") == "api")),
    }
    etag = etags.etag_of(orjson.dumps(document))
    headers = [(b"etag", etags.quoted(etag)), (b"vary", b"Accept")]
    if etags.matches(context.request.headers.get(b"if-none-match"), etag):
        return Response(304, b"", b"", headers)
    response = await render.document(context, document)
    response.headers += headers
    parameters = f";g={representation.as_group};v={representation.as_version};as={representation.as_kind}"
    response.content_type = representation.content_type + parameters.encode()
    return response


def _groups(discovery: Discovery, *, core: bool) -> Iterator[Document]:
    for group, versions in discovery.groups().items():
        if core == (not group):
            listed = [_version(discovery, group, version) for version in versions]
            yield {"metadata": {"name": group} if group else {}, "versions": listed}


def _version(discovery: Discovery, group: str, version: str) -> Document:
    if discovery.is_remote(group, version):
        listed = discovery.remote_resources(group, version)
        freshness = "Stale" if listed is None else "Current"
        return {
            "version": version,
            "resources": _remote(group, version, listed or []),
            "freshness": freshness,
        }
    if group == REWIND_GROUP:
        resources = aggregated_resources(discovery.catalog, group)
    else:
        definitions = discovery.catalog.of_version(group, version)
        found = (_resource(discovery, one) for one in definitions)
        resources = sorted(found, key=lambda one: str(one["resource"]))
    return {"version": version, "resources": resources, "freshness": "Current"}


def _remote(group: str, version: str, listed: list[Document]) -> list[Document]:
    """The entries of an APIResourceList of another server; subresources go below their resources."""
    found: dict[str, Document] = {}
    for one in sorted(listed, key=lambda one: str(one["name"])):
        name, _, subresource = str(one["name"]).partition("/")
        kind = _kind(one.get("group") or group, one.get("version") or version, str(one.get("kind", "")))
        if not subresource:
            entry = {
                "resource": name,
                "responseKind": kind,
                "scope": "Namespaced" if one.get("namespaced") else "Cluster",
                "singularResource": one.get("singularName") or "",
                "verbs": one.get("verbs") or [],
            }
            found[name] = entry | {key: one[key] for key in ("shortNames", "categories") if one.get(key)}
        elif name in found:
            below = {"subresource": subresource, "responseKind": kind, "verbs": one.get("verbs") or []}
            found[name].setdefault("subresources", []).append(below)
    return list(found.values())


def _resource(discovery: Discovery, definition: Definition) -> Document:
    entry: Document = {
        "resource": definition.plural,
        "responseKind": _kind(definition.group, definition.version, definition.kind),
        "scope": "Namespaced" if definition.namespaced else "Cluster",
        "singularResource": definition.names.singular or definition.kind.lower(),
        "verbs": discovery.verbs_of(definition),
    }
    if definition.names.short_names:
        entry["shortNames"] = list(definition.names.short_names)
    if definition.names.categories:
        entry["categories"] = list(definition.names.categories)
    subresources = [_subresource(discovery, definition, one) for one in definition.subresources]
    if served := [one for one in subresources if one["verbs"]]:
        entry["subresources"] = served
    return entry


def _subresource(discovery: Discovery, definition: Definition, one: Subresource) -> Document:
    group, version = (one.group, one.version) if one.version else (definition.group, definition.version)
    return {
        "subresource": one.name,
        "responseKind": _kind(group, version, one.kind or definition.kind),
        "verbs": discovery.served(one.verbs),
    }


def _kind(group: str, version: str, kind: str) -> Document:
    return {"group": group, "version": version, "kind": kind}
