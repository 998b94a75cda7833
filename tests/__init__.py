"""The tests and their fakes. A package, because gpuhunt installs one of this name, which would be found instead of a folder without this file."""
