"""Imports every format of results at once: a service that imports this before it forks spares each task from it."""

from plumbline.formats.registry import load_own

load_own()
