from __future__ import annotations

import threading
from pathlib import Path

import pytest

from plumbline.harness.inference.server.server_log import ServerLog
from plumbline.harness.measurement import TrialFailed

FIRST = """\
I1121 06:54:00.000000 26 model_lifecycle.cc:472] "loading: chat:1"
I1121 06:54:01.500000 26 python_be.cc:1] "plumbline-model {\\"parameters\\": 7}"
I1121 06:54:02.250000 26 model_lifecycle.cc:839] "successfully loaded 'chat'"
E1121 06:54:02.300000 26 metrics.cc:1] "NVML says nothing"
I1121 06:54:02.400000 26 grpc_server.cc:2558] "Started GRPCInferenceService at 127.0.0.1:4001"
"""
SECOND = """\
E1121 06:55:00.000000 31 model_repository_manager.cc:1] "failed to load 'chat'"
I1121 06:55:00.100000 31 server.cc:1] "bye"
"""


def test_what_it_says_of_a_start(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "server.log")
    log.begin()
    assert (log.text(), log.about(), log.load_s("chat"), log.opened("127.0.0.1:4001")) == ("", {}, None, False)
    assert "empty" in log.last_errors()
    log.path.write_text(FIRST)
    assert log.opened("127.0.0.1:4001")
    assert not log.opened("127.0.0.1:4002")
    assert log.load_s("chat") == 2.25
    assert log.load_s("other") is None
    assert log.about() == {"parameters": 7}
    assert "NVML" in log.last_errors(), "without an error that matters, the last lines"


def test_a_report_is_read_where_another_process_wrote_into_its_line(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "server.log")
    log.path.write_text(
        FIRST.replace('7}"\n', '7}"/lib/torch.py:1: UserWarning: "a warning"\n').replace(
            "I1121 06:54:02.25", "  import torchI1121 06:54:02.25"
        )
    )
    assert log.about() == {"parameters": 7} and log.load_s("chat") == 2.25


def test_a_report_whose_line_is_not_whole_is_waited_for_and_is_no_absent_one(tmp_path: Path) -> None:
    log, torn = ServerLog(tmp_path / "server.log"), FIRST[: FIRST.index("7}")]
    log.path.write_text(torn)
    with pytest.raises(TrialFailed, match="in parts"):
        log.about(within_s=0.1)
    rest = threading.Timer(0.2, log.path.write_text, [FIRST])
    rest.start()
    assert log.about(within_s=30.0) == {"parameters": 7}
    rest.join()


def test_each_start_is_read_alone(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "server.log")
    log.path.write_text(FIRST)
    log.begin()
    with log.path.open("a") as file:
        file.write(SECOND)
    assert not log.opened("127.0.0.1:4001")
    assert log.about() == {}
    error, harmless = SECOND.splitlines()
    assert error in log.last_errors() and harmless not in log.last_errors()
    assert log.path.read_text() == FIRST + SECOND


def test_over_new_year_the_load_time_is_absent(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "server.log")
    log.path.write_text(FIRST.replace("I1121 06:54:00", "I1231 23:59:59"))
    assert log.load_s("chat") is None
