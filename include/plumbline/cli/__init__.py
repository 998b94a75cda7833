"""The command line."""


def main() -> None:
    """Entry point of the `plumbline` command."""
    from plumbline.cli.app import app

    app()
