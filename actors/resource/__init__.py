"""Writes: the actor of a resource type decides what every command becomes, and submits it to the committer.

Begin with `directory`, which finds the actor of a type, and `actor`. `decide` is pure: definition, current object and
command become an event or a refusal.
"""
