"""Decodes configuration files that have an apiVersion and a kind, strictly, with the texts of Kubernetes.

    decode_configuration(raw, "AuthorizationConfiguration", {"apiserver.config.k8s.io/v1": STRUCT}, scheme)

Files are YAML or JSON. Unknown and repeated fields are errors, because a misspelt field of access would otherwise leave
something open. Only the caller knows what the values mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from rewound.actors.kinds.schema.exact_decoder import ExactDecoder
from rewound.actors.kinds.schema.fields import STRING, Field, Struct
from rewound.actors.kinds.schema.json_tree import Members, NotJson, Number, parse_tree
from rewound.actors.kinds.schema.scalars import WrongType, json_type_of
from rewound.actors.messages import Object
from rewound.gateway.wire import yaml

# Other kinds of such files: Kubernetes knows them, and says that it expected another.
_SIBLINGS: Final = (
    "AdmissionConfiguration",
    "AuthenticationConfiguration",
    "AuthorizationConfiguration",
    "TracingConfiguration",
)
_TYPE_META: Final = (Field("apiVersion", STRING, 0), Field("kind", STRING, 0))
_TYPED: Final = (
    r'Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)


class ConfigurationFileError(ValueError):
    """The file cannot be decoded; the text says why."""


def decode_configuration(raw: bytes, kind: str, structs: Mapping[str, Struct], scheme: str) -> Object:
    """Decode a file of a kind whose types are given by apiVersion; `scheme` is where Kubernetes registers them.

    The object has its apiVersion and kind, and no defaults. Raises ConfigurationFileError.
    """
    document, problems = _parse(raw)
    struct = structs[_check_type(raw, document, kind, structs, scheme)]
    decoder = ExactDecoder(defaults=False)
    try:
        found = decoder.struct(Struct(struct.of, *_TYPE_META, *struct.fields), document)
    except (WrongType, ValueError) as error:
        raise ConfigurationFileError(str(error)) from None
    if problems or decoder.problems:
        listed = ", ".join(yaml.merge_problems((*problems, *decoder.problems)))
        raise ConfigurationFileError(f"strict decoding error: {listed}")
    return found


def _parse(raw: bytes) -> tuple[Any, tuple[str, ...]]:
    if raw.lstrip()[:1] == b"{":
        try:
            return parse_tree(raw), ()
        except NotJson as error:
            if not _is_yaml(raw):
                raise _no_type(str(error)) from None
    try:
        loaded = yaml.load(raw)
    except yaml.YamlError as error:
        raise ConfigurationFileError(_yaml_text(error)) from None
    return loaded.value, loaded.problems


def _yaml_text(error: yaml.YamlError) -> str:
    """The text for a file, which names only the line."""
    text = error.message.removeprefix("error converting YAML to JSON: ")
    return re.sub(r", column \d+: ", ": ", text, count=1).replace(
        "send one object a request", "write only one"
    )


def _is_yaml(raw: bytes) -> bool:
    """Whether a text that begins like JSON and is none is a YAML mapping in braces."""
    try:
        yaml.load(raw)
    except yaml.YamlError:
        return False
    return True


def _no_type(why: str) -> ConfigurationFileError:
    return ConfigurationFileError(f"couldn't get version/kind; json parse error: {why}")


def _check_type(raw: bytes, document: Any, wanted: str, structs: Mapping[str, Struct], scheme: str) -> str:
    """Return the apiVersion of a document of the wanted kind."""
    if document is not None and not isinstance(document, (Members, dict)):
        raise _no_type(f"json: cannot unmarshal {json_type_of(document)} into {_TYPED}")
    members = dict(document or {})
    for name in ("apiVersion", "kind"):
        value = members.get(name)
        if value is not None and (type(value) is not str or isinstance(value, Number)):
            found = json_type_of(value)
            raise _no_type(f"json: cannot unmarshal {found} into Go struct field .{name} of type string")
    api_version, kind = members.get("apiVersion") or "", members.get("kind") or ""
    for name, value in (("Kind", kind), ("apiVersion", api_version)):
        if not value:
            raise ConfigurationFileError(f"Object '{name}' is missing in '{raw.decode(errors='replace')}'")
    group = next(iter(structs)).rpartition("/")[0]
    if kind != wanted and kind in _SIBLINGS and api_version.rpartition("/")[0] == group:
        raise ConfigurationFileError(f"expected {wanted}, got *apiserver.{kind}")
    if kind != wanted or api_version not in structs:
        raise ConfigurationFileError(
            f'no kind "{kind}" is registered for version "{api_version}" in scheme "{scheme}"'
        )
    return str(api_version)
