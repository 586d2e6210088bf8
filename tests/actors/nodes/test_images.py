"""Simulated nodes pull all images but those whose reference is invalid or that a rule names."""

from __future__ import annotations

from rewound.actors.nodes import images
from rewound.actors.nodes.images import bad_images_of, full_name, is_bad
from tests.cases import cases


@cases(
    "image, name",
    [
        ("web", "docker.io/library/web:latest"),
        ("team/web:1.2", "docker.io/team/web:1.2"),
        ("example.com:5000/team/web", "example.com:5000/team/web:latest"),
        ("localhost/web", "localhost/web:latest"),
        ("web@sha256:" + "a" * 64, "docker.io/library/web@sha256:" + "a" * 64),
        ("Web", None),
        ("we b", None),
        ("web:", None),
        ("web:a:b", None),
        ("-web", None),
    ],
)
def test_reference_has_a_full_name_or_is_invalid(image: str, name: str | None) -> None:
    assert full_name(image) == name


@cases(
    "annotations, image, bad",
    [
        ({}, "web:1", False),
        ({}, "web:non-existent", True),
        ({}, "webserver:404", True),
        ({}, "invalid.example.com/web:1", True),
        ({"sim/bad-images": "team/*, *:broken"}, "team/web:1", True),
        ({"sim/bad-images": "team/*, *:broken"}, "web:broken", True),
        ({"sim/bad-images": "team/*, *:broken"}, "web:non-existent", False),
        ({"sim/bad-images": ""}, "web:non-existent", False),
    ],
)
def test_rules_of_a_node_name_bad_images(annotations: dict[str, str], image: str, bad: bool) -> None:
    assert is_bad(image, bad_images_of({"metadata": {"annotations": annotations}})) == bad


def test_long_references_are_invalid_and_cut_in_messages() -> None:
    long = "a" * 1_000_000
    assert images.full_name(long) is None
    assert len(images.parse_error(long, frozenset())) < 20_000


def test_first_hundred_patterns_of_a_node_count() -> None:
    patterns = ",".join(f"image-{number}" for number in range(50_000))
    assert len(images.bad_images_of({"metadata": {"annotations": {"sim/bad-images": patterns}}})) == 100
