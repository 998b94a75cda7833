"""What happened: one stream of events in time order. Pages, `status`, the digest, the feed and the charts read it here."""
