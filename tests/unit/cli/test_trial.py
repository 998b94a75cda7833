"""`plumbline trial` and `replay` refuse what cannot run before anything starts."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("trial", "no-such", "--provider", "local-1core"), "no-such"),
        (("trial", "gpt-tiny-cpu", "--provider", "nowhere"), "nowhere"),
        (("trial", "inference/gpt-tiny-cpu", "--provider", "local-1core"), "training/gpt-tiny-cpu"),
        (("trial", "gpt-tiny-cpu", "--provider", "example-eks-p5"), "example-eks-p5"),
        (("replay", "no-such-trial"), "no-such-trial"),
    ],
)
def test_what_cannot_run_is_said_in_a_sentence(plumbline, home, words, told):
    result = plumbline(*words)
    assert result.exit_code == 2
    assert told in result.stderr and "Traceback" not in result.stderr
    assert not (home / "results").exists()
