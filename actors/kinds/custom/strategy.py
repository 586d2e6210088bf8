"""The strategy of one version of a custom kind: preparation, validation, and the form in which objects are stored.

Objects pass through them in the version that the client uses. Conversion to the storage version comes after that.
"""

from __future__ import annotations

from actors.kinds.custom.definition import LazySchema
from actors.kinds.custom.scale import ScalePaths, spec_rules, status_rules
from actors.kinds.declaration.definition import Strategy
from actors.kinds.declaration.meta import metadata_update_rules
from actors.kinds.validation import FieldErrors
from actors.messages import Object


class CustomStrategy:
    def __init__(self, schema: LazySchema, scale: ScalePaths | None, *, has_status: bool) -> None:
        self._schema = schema
        self._scale = scale
        self._has_status = has_status

    def strategy(self) -> Strategy:
        return Strategy(
            allow_unconditional_update=False,
            prepare_for_create=self.prepare_create,
            prepare_for_update=self.prepare_update,
            validate_create=self.validate_create,
            validate_update=self.validate_update,
            canonicalize=self.canonicalize,
        )

    def prepare_create(self, new: Object) -> None:
        if self._has_status:
            new.pop("status", None)
        new["metadata"]["generation"] = 1

    def prepare_update(self, new: Object, old: Object) -> None:
        """Everything but metadata, and the status where it is a subresource, makes a new generation."""
        if self._has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        if _content(new) != _content(old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_status(self, new: Object, old: Object) -> None:
        """Only the status changes, and who manages it."""
        status, entries = new.get("status"), new["metadata"].get("managedFields")
        new.clear()
        new.update({name: value for name, value in old.items() if name != "status"})
        new["metadata"] = {name: value for name, value in old["metadata"].items() if name != "managedFields"}
        if entries:
            new["metadata"]["managedFields"] = entries
        if status is not None:
            new["status"] = status

    def validate_create(self, errors: FieldErrors, new: Object) -> None:
        self._schema.compiled.validate(errors, new, None)
        self._scale_rules(errors, new)

    def validate_update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_update_rules(errors, new["metadata"], old["metadata"], known_finalizers=False)
        self._schema.compiled.validate(errors, new, old)
        self._scale_rules(errors, new)

    def validate_status(self, errors: FieldErrors, new: Object, old: Object) -> None:
        """As in v1.25, embedded objects and equal items of lists are not looked for."""
        metadata_update_rules(errors, new["metadata"], old["metadata"], known_finalizers=False)
        self._schema.compiled.validate(errors, new, old, of_status=True)
        if self._scale is not None:
            status_rules(errors, self._scale, new)

    def canonicalize(self, new: Object) -> None:
        self._schema.compiled.canonicalize(new)

    def _scale_rules(self, errors: FieldErrors, new: Object) -> None:
        if self._scale is not None:
            spec_rules(errors, self._scale, new)
            status_rules(errors, self._scale, new)


def _content(one: Object) -> Object:
    return {name: value for name, value in one.items() if name != "metadata"}
