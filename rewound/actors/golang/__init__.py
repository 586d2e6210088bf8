"""Texts as Go writes them: quoted in messages, JSON with its escapes, values in its formats."""
