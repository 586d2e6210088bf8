"""Protected API groups: those of the project itself, whose definitions need an annotation that approves them.

metadata:
  annotations:
    api-approved.cluster.io: https://example.com/the-review        approved
    api-approved.cluster.io: unapproved, an experiment             allowed, and reported in a condition
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from actors.kinds.validation import FieldErrors, invalid, required
from actors.messages import Object
from actors.names import Names
from actors.quoting import quoted_start

CONDITION: Final = "KubernetesAPIApprovalPolicyConformant"
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


@dataclass(frozen=True, slots=True)
class Approval:
    """What the annotation of a definition says, with status and reason of the condition."""

    status: str
    reason: str
    message: str


def is_protected(names: Names, group: str) -> bool:
    return any(
        group == domain or group.endswith(f".{domain}") for domain in (names.group_domain, names.key_domain)
    )


def approval_annotation(names: Names) -> str:
    return f"api-approved.{names.key_domain}"


def approval_of(names: Names, definition: Object) -> Approval:
    key = approval_annotation(names)
    text: str = definition["metadata"].get("annotations", {}).get(key, "")
    needed = f'protected groups must have approval annotation "{key}"'
    if not text:
        return Approval("False", "MissingAnnotation", f"{needed}, {_SEE}")
    if text.startswith("unapproved"):
        return Approval("False", "UnapprovedAnnotation", f"not approved: {quoted_start(text)}")
    if _is_url(text):
        return Approval("True", "ApprovedAnnotation", f"approved in {text}")
    either = 'with either a URL or a reason starting with "unapproved"'
    return Approval("False", "InvalidAnnotation", f"{needed} {either}, {_SEE}")


def approval_rules(errors: FieldErrors, names: Names, new: Object, old: Object | None) -> None:
    """A missing or invalid approval of a protected group; one that was stored before stays allowed."""
    if not is_protected(names, new["spec"]["group"]):
        return
    approval = approval_of(names, new)
    if old is not None and approval_of(names, old).reason == approval.reason:
        return
    key = approval_annotation(names)
    field = f"metadata.annotations[{key}]"
    if approval.reason == "MissingAnnotation":
        errors.add(required(field, approval.message))
    elif approval.reason == "InvalidAnnotation":
        errors.add(invalid(field, new["metadata"]["annotations"][key], approval.message))


def _is_url(text: str) -> bool:
    if any(character <= " " for character in text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)
