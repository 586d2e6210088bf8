"""What the metadata of a write must be: names, versions, owners."""
