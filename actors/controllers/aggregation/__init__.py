"""Controllers of APIServices: local ones for own groups, and the condition Available of the others."""
