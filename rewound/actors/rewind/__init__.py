"""The history of objects, read from the journal, for the API and for the command line. Nothing here writes."""
