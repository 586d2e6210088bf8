"""Faults for controllers under test: errors, delays, stale reads and broken watches, by rules and a seed."""
