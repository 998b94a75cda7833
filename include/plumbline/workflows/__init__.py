"""What Plumbline does, one workflow a file, free of Airflow: the DAGs, the command line and tests call it."""
