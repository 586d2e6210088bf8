"""Descriptions of the API, made from its kinds: discovery, and OpenAPI in `openapi/` (docs/descriptions.md)."""
