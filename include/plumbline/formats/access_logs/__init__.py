"""Access logs of inference servers and gateways, one file a format."""
