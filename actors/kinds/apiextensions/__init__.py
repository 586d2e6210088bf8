"""The apiextensions group: CustomResourceDefinition, a kind that clients bring."""

from actors.kinds.apiextensions.definition import declare

__all__ = ["declare"]
