"""OpenAPI in its editions 2 and 3, written from the declarations of kinds. `door` is where requests come in."""
