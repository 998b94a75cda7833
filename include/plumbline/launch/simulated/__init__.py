"""Simulated trials: a seeded model of a provider in place of a machine. How a team rehearses its alerts; see docs/rehearse-with-simulation.md.

model.py      how one trial differs from the provider's level: noise, node, time of day, declared drift
hardware.py   what the accelerator does without noise, and the probes' rows
training.py, inference.py   the rows that the harness would report
surroundings.py  the environment's facts
documents.py  a whole result document
launcher.py   the launcher: the same files in the same store as of a trial that ran
"""

from plumbline.launch.simulated.documents import simulate
from plumbline.launch.simulated.launcher import SimulatedLauncher

__all__ = ["SimulatedLauncher", "simulate"]
