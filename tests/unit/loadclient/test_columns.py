"""A log's columns in memory that several processes share, whatever their server tells of its stages."""

from __future__ import annotations

import os

import numpy as np
import pytest

from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import PIPELINE, STAGES
from plumbline.loadclient.shared_columns import SharedColumns

LOAD = PhaseLoad("steady", 1.0, np.arange(3) / 3, *(np.full(3, n, np.int32) for n in (8, 4, -1)))


@pytest.mark.parametrize("stages", [STAGES, PIPELINE])
def test_both_sides_see_the_same(stages: tuple[str, ...]) -> None:
    ours = SharedColumns(LOAD, stages)
    theirs = SharedColumns(LOAD, stages, os.dup(ours.fd))
    theirs.log.server_s[:] = np.arange(3 * len(stages)).reshape(3, len(stages))
    theirs.log.token_at[:] = -1.0
    theirs.log.error[:] = 1
    assert ours.log.stages == stages and ours.log.server_s.shape == (3, len(stages))
    assert ours.log.server_s.flatten().tolist() == list(range(3 * len(stages))), "nothing lies over it"
    ours.began = 7.0
    assert theirs.began == 7.0
    for columns in (ours, theirs):
        columns.close()
