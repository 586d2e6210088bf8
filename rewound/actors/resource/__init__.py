"""Writes: the actor of a resource type decides what every command becomes, and submits it to the committer.

Begin with `decide`: an `Attempt` is one coroutine from the current object through patch, admission and validation to
the proposed event. `directory` finds the actor of a type, `actor` runs the coroutines of its commands, `waiting` has
those that wait for something outside, `write` is a command with its reply, `proposing` turns decisions into events.
"""
