"""Archives on both databases."""

from tests.fakes.postgres_server import archive_url, postgres_server  # noqa: F401
