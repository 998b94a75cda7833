"""The pages in Airflow's navigation: a FastAPI app over the archive, which it only reads.

Nothing is imported here: every component of Airflow loads the plugin, and only the API server ever shows a page.
"""
