"""The strategy of a kind: its own steps in a create or an update, under the names that Kubernetes has for them.

`actors.resource.decide` calls the functions in this order: `prepare_for_*`, `validate_*`, admission, `canonicalize`.
All of them are pure. `prepare_for_*` and `canonicalize` change the working copy they are given, at its top level and in
the maps directly below it; what lies deeper belongs to the command too, and is replaced, never changed. Validation
changes nothing but the collector that it adds errors to. Objects are in storage form, without kind and apiVersion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.kinds.validation.field_errors import FieldErrors
from actors.messages import Object

PrepareForUpdate = Callable[[Object, Object], None]  # (new, old)
ValidateUpdate = Callable[[FieldErrors, Object, Object], None]  # (errors, new, old)


def no_preparation(_: Object, *__: Object) -> None:
    """Change nothing: for kinds that need no preparation."""


def no_validation(_: FieldErrors, *__: Object) -> None:
    """Add no errors: for kinds without rules of their own."""


def no_warnings(_: Object, __: Object | None) -> list[str]:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    allow_create_on_update: bool = False
    allow_unconditional_update: bool = True
    validates_metadata: bool = False  # validate_create checks metadata too, in an order of its own
    # Paths that a write does not change, so that no manager comes to own them. None: the status, where it is a
    # subresource.
    reset_fields: tuple[str, ...] | None = None
    prepare_for_create: Callable[[Object], None] = no_preparation
    prepare_for_update: PrepareForUpdate = no_preparation
    validate_create: Callable[[FieldErrors, Object], None] = no_validation
    validate_update: ValidateUpdate = no_validation  # includes the metadata checks that the kind itself makes
    canonicalize: Callable[[Object], None] = no_preparation  # brings a valid object into its stored form
    warnings: Callable[[Object, Object | None], list[str]] = no_warnings  # (new, old); no old on create
