"""What Airflow shows of Plumbline among its providers. Airflow imports it while it starts, so it imports nothing."""


def get_provider_info() -> dict[str, object]:
    """As Airflow's provider schema has it; Airflow adds the version from the package's metadata."""
    return {
        "package-name": "plumbline",
        "name": "Plumbline",
        "description": "Benchmarks AI cloud providers continuously, and says with evidence when one has drifted.",
    }
