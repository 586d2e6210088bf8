"""OpenAPI 3.0 of custom kinds, in fragments that are made once for each version of a kind."""
