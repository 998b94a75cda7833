"""What imports Airflow; every process of Airflow imports it, and may then read the archive's address from a connection."""

from plumbline.declarations import archive_address

archive_address.ask_airflow()
