"""What changed before an object broke, ranked, each change with its reasons. Begin with `suspects.find_suspects`.

`past` reads the journal within bounds, `breaking` finds when the object broke and by which words, `references` says
what an object names, `concerns` which other objects apply to it, `weighing` how much a change explains.
"""
