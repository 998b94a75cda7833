"""Logs in which training programs report their steps by themselves, one file a program."""
