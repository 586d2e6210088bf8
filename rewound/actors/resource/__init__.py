"""Writes: the actor of a resource type decides what every command becomes, and submits it to the committer.

Begin with `decide`: an `Attempt` is one coroutine from the current object through patch, admission and validation to
the proposed event. `directory` finds the actor of a type, `actor` runs the coroutines of its commands, `write` is
a command with its reply, and how it waits for something outside, `proposing` turns decisions into events.
"""
