"""What the report's sections say, as plain rows and sentences: one file a section, templates only lay it out."""
