"""What actors and controllers run on: mailboxes, supervisor, clock, turns on the event loop, the worker thread."""
