"""What MLPerf Training's own log and its published table share."""

from __future__ import annotations

from plumbline.metrics.rows import Reason

TARGET_NOT_REACHED = Reason(code="target_not_reached", detail="the run ended before it reached the target quality")
