"""Names of images: whether one names a fixed image, or whatever is the latest.

    registry.example:5000/team/app:1.2@sha256:...
    |---- domain -------| |-path-| tag  digest

Nothing is refused for its name; a name that cannot be read names no latest image. Patterns here and in other rare
rules are compiled by `re` when first used: together they would take longer than importing all of this.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_LONGEST_NAME: Final = 255
_HOME: Final = "docker.io"  # the registry of images without one

_WORD: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN: Final = rf"{_WORD}(?:\.{_WORD})*(?::[0-9]+)?"
_STEP: Final = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_TAG: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST: Final = "(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})"
_REFERENCE: Final = rf"({_DOMAIN}(?:/{_STEP})+)(?::({_TAG}))?(?:@({_DIGEST}))?"
_IDENTIFIER: Final = "[a-f0-9]{64}"


@lru_cache(maxsize=1024)  # all pods of a workload have the same images
def is_latest(image: str) -> bool:
    """The tag is `latest`, said or meant."""
    if re.fullmatch(_IDENTIFIER, image):
        return False
    found = re.fullmatch(_REFERENCE, _complete(image))
    if found is None or len(found[1]) > _LONGEST_NAME:
        return False
    return found[2] == "latest" if found[2] or found[3] else True


def _complete(image: str) -> str:
    """With the registry that is meant where none is named."""
    first, slash, _ = image.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return image
    return f"{_HOME}/{image}" if slash else f"{_HOME}/library/{image}"
