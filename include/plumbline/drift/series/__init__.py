"""Long series, one value per campaign: where one changed for good, what its newest point shows, and whether it creeps.

    for change in changes(values): …            # every lasting change, oldest first
    movement = look(values)                     # what the newest point made visible, else None
    crept = creep(values, oldest_accepted)      # a slow trend away from the oldest accepted baseline, else None

Candidates come from `ruptures`; what is kept of them, from tests that account for a series being looked at after every point.
"""

from plumbline.drift.series.changes import FLOOR, Change, changes
from plumbline.drift.series.look import Creep, Movement, creep, look

__all__ = ["FLOOR", "Change", "Creep", "Movement", "changes", "creep", "look"]
