"""Finds objects, events and versions for the commands, in a server, a data folder or a file. Begin with `source`."""
