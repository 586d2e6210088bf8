"""History in the API: `?at=` on gets and lists, the group with history, blame and rollback, and the web `page/`."""
