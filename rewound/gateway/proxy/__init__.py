"""Forwards requests to other servers: pods, services and nodes (docs/proxy.md)."""
