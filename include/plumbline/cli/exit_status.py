"""Exit statuses of all commands."""

OK = 0
FAILED = 1  # something ran and did not succeed: a trial failed, a campaign is incomplete
UNUSABLE = 2  # nothing ran: bad arguments, bad declarations, no such trial
DRIFTED = 4  # it ran, and the comparison found drift
BROKEN = 4  # it ran, and the archive does not hold
BUSY = 5  # it ran, and other load on this machine spoilt it: nothing is ranked
NOT_SHOWN = 6  # it ran, and its evidence decides nothing: neither kept nor broken, nothing compared
INTERRUPTED = 130

EXIT_CODES = (
    "Exit codes: 0 done · 1 something ran and failed · 2 nothing ran (bad arguments or declarations) · "
    "4 drift was found (compare, watch) or the archive is broken (archive verify) · 5 this machine was busy, nothing is ranked (run) · "
    "6 the evidence decides nothing (cost reconcile, accept, doctor) · 130 interrupted"
)
