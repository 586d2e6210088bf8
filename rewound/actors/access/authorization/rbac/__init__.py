"""RBAC: `policy` follows the feed and has the compiled `roles` and bindings; `authorizer` decides with them."""
