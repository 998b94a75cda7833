import pytest

from plumbline.harness.contention_monitor import core_times, pressure_file, pressure_s

STAT = """cpu  100 0 100 1000 10 1 2 3 0 0
cpu0 40 0 60 700 7 1 1 2 0 0
cpu1 60 0 40 300 3 0 1 1 0 0
intr 12345
"""
PSI = "some avg10=2.54 avg60=1.22 avg300=0.34 total=11425410\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"


def test_only_the_named_cores_count(tmp_path):
    (tmp_path / "stat").write_text(STAT)
    one = core_times([1], tmp_path / "stat")
    assert (one.idle_s, one.interrupts_s, one.stolen_s) == pytest.approx((3.03, 0.01, 0.01))
    both = core_times([0, 1], tmp_path / "stat")
    assert (both.idle_s, both.interrupts_s, both.stolen_s) == pytest.approx((10.10, 0.03, 0.03))


def test_a_core_that_is_not_there_is_an_error(tmp_path):
    (tmp_path / "stat").write_text(STAT)
    with pytest.raises(ValueError, match="cpu7"):
        core_times([0, 7], tmp_path / "stat")


def test_pressure_is_read_in_seconds(tmp_path):
    (tmp_path / "cpu").write_text(PSI)
    assert pressure_s(tmp_path / "cpu") == pytest.approx(11.42541)


def test_a_pods_own_pressure_goes_before_the_machines(tmp_path):
    for file in ("proc/pressure/cpu", "sys/fs/cgroup/pod/cpu.pressure", "proc/self/cgroup"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("0::/pod\n" if file.endswith("cgroup") else PSI)
    assert pressure_file(tmp_path) == tmp_path / "sys/fs/cgroup/pod/cpu.pressure"
    (tmp_path / "sys/fs/cgroup/pod/cpu.pressure").write_text("")
    assert pressure_file(tmp_path) == tmp_path / "proc/pressure/cpu"


def test_without_psi_there_is_no_file(tmp_path):
    assert pressure_file(tmp_path) is None
