"""Watch streams: groups of watchers who ask for the same bytes, swept with every commit."""
