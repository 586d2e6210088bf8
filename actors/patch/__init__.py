"""Changing documents: JSON patch, merge patch, strategic merge patch. Pure functions; no kind is spelled here."""
