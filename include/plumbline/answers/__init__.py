"""What the archive and the declarations say, as values: read by pages, commands, reports and workflows, and written by none of them."""
