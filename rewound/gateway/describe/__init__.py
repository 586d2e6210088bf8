"""Descriptions of the API, derived from its kinds: discovery, and OpenAPI in `openapi/` (docs/descriptions.md)."""
