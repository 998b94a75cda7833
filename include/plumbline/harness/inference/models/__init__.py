"""Models that the inference server serves: sources that are copied into its repository, not imported by the harness."""
