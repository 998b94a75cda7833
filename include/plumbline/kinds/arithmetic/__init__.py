"""Numbers that follow from a declaration, and those that the harness and the simulation compute alike."""
