from plumbline.harness.measurement import TrialJudgement, failed_validity, verdict
from plumbline.results import Reason


def judgement(level, code):
    return TrialJudgement(level, Reason(code=code, detail=f"{code} was seen"))


def test_a_trial_that_nothing_speaks_against_is_valid():
    assert verdict([]).status == "valid"
    assert verdict([]).reasons == ()


def test_one_degrading_reason_degrades():
    found = verdict([judgement("degraded", "contended_cpu")])
    assert (found.status, [r.code for r in found.reasons]) == ("degraded", ["contended_cpu"])


def test_one_invalidating_reason_is_enough_and_comes_first():
    found = verdict([judgement("degraded", "contended_cpu"), judgement("invalid", "step_time_unsteady")])
    assert (found.status, [r.code for r in found.reasons]) == ("invalid", ["step_time_unsteady", "contended_cpu"])


def test_the_same_judgement_from_two_sides_counts_once():
    assert len(verdict([judgement("degraded", "contended_cpu"), judgement("degraded", "contended_cpu")]).reasons) == 1


def test_a_failure_keeps_what_else_was_wrong():
    found = failed_validity("server_error", "the server died", [judgement("invalid", "contended_cpu")])
    assert (found.status, found.failure_class) == ("failed", "server_error")
    assert [r.code for r in found.reasons] == ["server_error", "contended_cpu"]
