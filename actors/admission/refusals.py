"""The error with which a plugin refuses a write, in the form of Kubernetes."""

from __future__ import annotations

from actors.admission.request import AdmissionRequest
from actors.errors import Forbidden


def forbidden(request: AdmissionRequest, why: str) -> Forbidden:
    """Names the object; a create whose name is not generated yet shows its generateName."""
    return Forbidden(request.definition.resource, request.name or _name_in(request), why)


def _name_in(request: AdmissionRequest) -> str:
    metadata = (request.object or {}).get("metadata") or {}
    return metadata.get("name") or metadata.get("generateName") or "Unknown"
