"""Long series, one value per campaign: where one changed for good, and whether it creeps.

    for change in changes(values): …            # every lasting change, oldest first
    crept = creep(values, oldest_accepted)      # a slow trend away from the oldest accepted baseline, else None

Candidates come from `ruptures`; what is kept of them, from tests that account for a series being looked at after every point.
"""

from plumbline.drift.series.changes import FLOOR, Change, changes
from plumbline.drift.series.creeping import Creep, creep

__all__ = ["FLOOR", "Change", "Creep", "changes", "creep"]
