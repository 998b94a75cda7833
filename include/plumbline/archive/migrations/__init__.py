"""Alembic's folder: the same migrations for SQLite and PostgreSQL. Run by plumbline.archive.migrate only."""
