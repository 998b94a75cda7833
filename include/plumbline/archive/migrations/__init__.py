"""Alembic scripts, for SQLite and PostgreSQL; run by plumbline.archive.migrate. A script that rebuilds a protected table (SQLite's batch
mode) protects it again: plumbline.archive.migrate."""
