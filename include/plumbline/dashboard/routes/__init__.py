"""Which address shows what: one file for each page, with a function `router` that `app` includes."""
