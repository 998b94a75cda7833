"""`python -m plumbline.cli`, for environments into which the package is not installed."""

from plumbline.cli import main

main()
