"""Which images a simulated node can pull: all valid references, apart from those that its rules name.

No image is ever pulled. The annotation `sim/bad-images` of a Node lists patterns of images that its pulls do not find;
without it, these are the tag `non-existent` and registries whose name begins with `invalid.`.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from typing import Final

from rewound.actors.chaos.plan import BAD_IMAGES, DEFAULT_BAD_IMAGES
from rewound.actors.golang.quoting import cut, quoted
from rewound.actors.messages import Object
from rewound.actors.versions.features import IMAGE_IN_PARSE_ERRORS

IMAGE_BYTES: Final = 10 * 2**20  # of every image: too small to matter to a scheduler
_MOST_PATTERNS: Final = 100
_LONGEST: Final = 1024  # characters; no valid reference is longer, and none that is gets remembered
_DOMAIN_PART: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN: Final = re.compile(rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_PATH_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REST: Final = re.compile(
    rf"(?P<path>{_PATH_PART}(?:/{_PATH_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)


def bad_images_of(node: Object) -> tuple[str, ...]:
    """The patterns of a node; those after the first hundred, or longer than any image, do not count."""
    text = (node["metadata"].get("annotations") or {}).get(BAD_IMAGES, DEFAULT_BAD_IMAGES)
    return _patterns(text)


@lru_cache(64)
def _patterns(text: str) -> tuple[str, ...]:
    patterns = (pattern for part in text.split(",") if 0 < len(pattern := part.strip()) <= _LONGEST)
    return tuple(islice(patterns, _MOST_PATTERNS))


def is_bad(image: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(image, pattern) for pattern in patterns)


def full_name(image: str) -> str | None:
    """The reference with registry and tag; None if it is invalid."""
    return _full_name(image) if len(image) <= _LONGEST else None


@lru_cache(1024)
def _full_name(image: str) -> str | None:
    domain, slash, rest = image.partition("/")
    if not slash or not (set(domain) & set(".:") or domain == "localhost" or domain != domain.lower()):
        domain, rest = "docker.io", image if slash else f"library/{image}"
    found = _REST.fullmatch(rest)
    if found is None or _DOMAIN.fullmatch(domain) is None or len(found["path"]) > 255:
        return None
    tag = f":{found['tag'] or 'latest'}" if found["tag"] or not found["digest"] else ""
    return f"{domain}/{found['path']}{tag}{'@' + found['digest'] if found['digest'] else ''}"


def parse_error(image: str, features: frozenset[str]) -> str:
    """Why a reference is invalid, as the kubelet says it."""
    problem = "invalid reference format"
    if full_name(image.lower()) is not None:
        problem += ": repository name must be lowercase"
    image = cut(image)
    if IMAGE_IN_PARSE_ERRORS in features:
        return f"couldn't parse image name {quoted(image)}: {problem}"
    return f"couldn't parse image reference {quoted(image)}: {problem}"


def pull_error(image: str) -> str:
    """What a container runtime says of an image that is not there."""
    name = full_name(image) or image
    return (
        f"rpc error: code = NotFound desc = failed to pull and unpack image {quoted(name)}: "
        f"failed to resolve reference {quoted(name)}: {name}: not found"
    )
