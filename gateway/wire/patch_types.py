"""The content types of PATCH requests, and the patch format of each."""

from __future__ import annotations

STRATEGIC = "application/strategic-merge-patch+json"
PATCH_FORMATS = {
    b"application/json-patch+json": "json",
    b"application/merge-patch+json": "merge",
    STRATEGIC.encode(): "strategic",
    b"application/apply-patch+yaml": "apply",
}
PATCH_MEDIA = tuple(media.decode() for media in PATCH_FORMATS)
