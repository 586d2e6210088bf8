"""Why a patch could not be applied, named for what is at fault."""

from __future__ import annotations


class PatchError(Exception):
    """Base of everything this package raises on purpose."""


class MalformedPatch(PatchError):
    """The patch itself is not one."""


class PatchDoesNotFit(PatchError):
    """A well-formed patch that cannot be applied to this document: a missing path, a failed test."""


class PatchTooLarge(PatchError):
    """More operations or copied bytes than are allowed."""
