"""Compares OpenAPI and discovery of every version of Kubernetes with tables of facts; prints what differs.

    python tests/conformance/versions.py ../shared/reference/versions
    python tests/conformance/versions.py ../shared/reference/versions 1.30 1.36

The tables are not part of this project; `make conformance` needs them. They have, for all versions, the types, fields
and markers of the OpenAPI 3.0 documents (fields.json) and the resources with their verbs (resources.json). All kinds of
a version are compared, served by default or not.
"""

from __future__ import annotations

from typing import Any

VERBS = frozenset(["get", "list", "create", "update", "patch", "delete", "deletecollection", "watch"])
MARKERS = ("default", "enum")
PREFIX, MARKER = "x-kubernetes-", "x-cluster-"
Facts = dict[str, Any]
