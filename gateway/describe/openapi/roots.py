"""Paths besides those of kinds: the documents of discovery, and the version."""

from __future__ import annotations

from dataclasses import dataclass

from actors.kinds.schema.fields import Struct
from gateway.describe.openapi.operations import Operation, Path
from gateway.describe.openapi.titles import Titles
from gateway.wire import meta_types


@dataclass(frozen=True, slots=True)
class Roots:
    titles: Titles

    def versions(self) -> Path:
        return self._reading(
            "/api/", "getCoreAPIVersions", "core", "Versions there are.", meta_types.API_VERSIONS
        )

    def groups(self) -> Path:
        return self._reading(
            "/apis/", "getAPIVersions", "apis", "Groups there are.", meta_types.API_GROUP_LIST
        )

    def group(self, group: str) -> Path:
        id_ = f"get{self.titles.infix(group)}APIGroup"
        text = "Versions that the group has."
        return self._reading(f"/apis/{group}/", id_, self.titles.tag(group), text, meta_types.API_GROUP)

    def resources(self, group: str, version: str) -> Path:
        id_ = f"get{self.titles.infix(group, version)}APIResources"
        path = f"/apis/{group}/{version}/" if group else f"/api/{version}/"
        tag, text = self.titles.tag(group, version), "Resources that are served."
        return self._reading(path, id_, tag, text, meta_types.API_RESOURCE_LIST)

    def build(self) -> Path:
        return self._reading(
            "/version/", "getCodeVersion", "version", "What serves this API.", meta_types.VERSION_INFO
        )

    def _reading(self, path: str, id_: str, tag: str, text: str, answer: Struct) -> Path:
        operation = Operation(
            tag=tag,
            id=id_,
            text=text,
            gives=self.titles.media,
            answers=((200, "the document", answer),),
        )
        return Path(path, (), (operation,))
