"""The runtime of actors and controllers: mailboxes, supervisor, clock, turns on the event loop, worker threads."""
