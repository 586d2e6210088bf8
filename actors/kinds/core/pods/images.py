"""Image references: whether one names a fixed tag or digest, or the latest image.

    registry.example:5000/team/app:1.2@sha256:...
    |---- domain -------| |-path-| tag  digest

No image is invalid because of its name; a name that cannot be parsed does not name the latest image. `re` compiles the
patterns here and in other rarely used rules on first use: compiling them all would take longer than importing the
kinds.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_LONGEST_NAME: Final = 255
_LONGEST_REFERENCE: Final = 640  # a name, a tag of 128 characters and a digest of 135
_DEFAULT_REGISTRY: Final = "docker.io"  # the registry of images without one

_DOMAIN_LABEL: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN: Final = rf"{_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*(?::[0-9]+)?"
_PATH_SEGMENT: Final = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_TAG: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST: Final = "(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})"
_REFERENCE: Final = rf"({_DOMAIN}(?:/{_PATH_SEGMENT})+)(?::({_TAG}))?(?:@({_DIGEST}))?"
_IDENTIFIER: Final = "[a-f0-9]{64}"


def is_latest(image: str) -> bool:
    """Whether the tag is `latest`, explicitly or by default. No longer text is a reference."""
    return len(image) <= _LONGEST_REFERENCE and _is_latest(image)


@lru_cache(maxsize=1024)  # all pods of a workload have the same images
def _is_latest(image: str) -> bool:
    if re.fullmatch(_IDENTIFIER, image):
        return False
    found = re.fullmatch(_REFERENCE, _with_registry(image))
    if found is None or len(found[1]) > _LONGEST_NAME:
        return False
    return found[2] == "latest" if found[2] or found[3] else True


def _with_registry(image: str) -> str:
    """The image with the default registry where it names none."""
    first, slash, _ = image.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return image
    return f"{_DEFAULT_REGISTRY}/{image}" if slash else f"{_DEFAULT_REGISTRY}/library/{image}"
