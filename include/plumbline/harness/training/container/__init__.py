"""A command that is measured as a whole: it runs once on each node, and its numbers are in what it writes."""
