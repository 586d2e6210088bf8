"""Imports what validates CustomResourceDefinitions, and what their kinds need, before the actor validates one."""

from __future__ import annotations

from actors.admission.plugin import Admitted, AsyncPlugin, rule
from actors.admission.request import CREATE, UPDATE, AdmissionRequest
from actors.background_import import imported
from actors.errors import Resource
from actors.kinds.apiextensions.definition import SCHEMA_MODULES
from actors.names import Names


class SchemaLibrary(AsyncPlugin):
    """The imports take 200 ms, in which the event loop would serve nobody. Servers without custom kinds need none."""

    name = "SchemaLibrary"

    def __init__(self, names: Names) -> None:
        resource = Resource(names.group("apiextensions"), "customresourcedefinitions")
        self.mutates = (rule(CREATE, UPDATE, of=(resource,)),)

    async def admit(self, request: AdmissionRequest) -> Admitted:
        for name in SCHEMA_MODULES:
            await imported(name)
        return Admitted()
