"""Checks of a whole installation, each one line with its remedy: `plumbline doctor`. Nothing is changed, and nothing of Airflow imported."""
