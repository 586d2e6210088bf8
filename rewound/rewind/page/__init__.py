"""The web page at /debug/journal/, and the timeline in the API from which it reads."""
