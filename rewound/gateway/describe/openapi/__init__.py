"""OpenAPI 2.0 and 3.0 documents, derived from the declarations of kinds. `handler` serves the requests."""
