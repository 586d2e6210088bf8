"""Watch streams: watchers that need the same bytes form a group; each commit is sent to the groups it affects."""
