"""The history of objects in the API: `?at=` on gets and lists, and the group with history, blame and rollback."""
