"""Figures of decisions about the journal."""
