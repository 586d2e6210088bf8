"""Serves group versions of other servers, to which APIServices refer (docs/aggregation.md)."""
