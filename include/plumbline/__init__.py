"""Plumbline: benchmarks AI cloud providers continuously and says, with evidence, when one has drifted."""
