"""Paths of discovery documents, of /version, and of the documents about the issuer of service account tokens."""

from __future__ import annotations

from dataclasses import dataclass

from actors.kinds.schema.fields import Struct
from gateway.describe.openapi.naming import Naming
from gateway.describe.openapi.operations import Operation, Path
from gateway.wire import meta_types


@dataclass(frozen=True, slots=True)
class DiscoveryPaths:
    naming: Naming

    def versions(self) -> Path:
        return self._get(
            "/api/", "getCoreAPIVersions", "core", "Versions of the core group.", meta_types.API_VERSIONS
        )

    def groups(self) -> Path:
        return self._get("/apis/", "getAPIVersions", "apis", "API groups.", meta_types.API_GROUP_LIST)

    def group(self, group: str) -> Path:
        id_ = f"get{self.naming.infix(group)}APIGroup"
        text = "Versions of the group."
        return self._get(f"/apis/{group}/", id_, self.naming.tag(group), text, meta_types.API_GROUP)

    def resources(self, group: str, version: str) -> Path:
        id_ = f"get{self.naming.infix(group, version)}APIResources"
        path = f"/apis/{group}/{version}/" if group else f"/api/{version}/"
        tag, text = self.naming.tag(group, version), "Resources of the group version."
        return self._get(path, id_, tag, text, meta_types.API_RESOURCE_LIST)

    def version(self) -> Path:
        return self._get(
            "/version/", "getCodeVersion", "version", "Version of the server.", meta_types.VERSION_INFO
        )

    def issuer_configuration(self) -> Path:
        return _get(
            "/.well-known/openid-configuration/",
            "getServiceAccountIssuerOpenIDConfiguration",
            "WellKnown",
            "OpenID configuration of the issuer of service account tokens.",
            None,
            ("application/json",),
        )

    def issuer_keys(self) -> Path:
        return _get(
            "/openid/v1/jwks/",
            "getServiceAccountIssuerOpenIDKeyset",
            "openid",
            "Public keys with which service account tokens are verified.",
            None,
            ("application/jwk-set+json",),
        )

    def _get(self, path: str, id_: str, tag: str, text: str, struct: Struct) -> Path:
        return _get(path, id_, tag, text, struct, self.naming.media)


def _get(path: str, id_: str, tag: str, text: str, struct: Struct | None, media: tuple[str, ...]) -> Path:
    responses = ((200, "the document", struct),)
    operation = Operation(tag=tag, id=id_, text=text, produces=media, responses=responses)
    return Path(path, (), (operation,))
