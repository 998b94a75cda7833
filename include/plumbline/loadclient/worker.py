"""One sender process, `worker.py PARENT_PID`: reads its SendingJob from standard input, prints "ready" once connected, writes its WorkerResult to
standard output, and ends with its parent."""

from __future__ import annotations

import os
import pickle
import resource
import sys
import time

import numpy as np

from plumbline.loadclient.engine import LoadCommand
from plumbline.loadclient.load_generator import send_share
from plumbline.loadclient.multi_process import READY, SendingJob, WorkerResult
from plumbline.loadclient.shared_columns import SharedColumns

_POLL_S = 0.001


def main() -> None:
    """Carry out the job on standard input."""
    job: SendingJob = pickle.load(sys.stdin.buffer)
    if job.settings.memory is not None:
        # Data alone: address space is also what libraries reserve and never use.
        resource.setrlimit(resource.RLIMIT_DATA, (job.settings.memory, job.settings.memory))
    if job.cpu is not None:
        os.sched_setaffinity(0, {job.cpu})
    columns = SharedColumns(job.load, job.target.wire.stages, job.fd)

    parent = int(sys.argv[1])

    def look() -> LoadCommand:
        # Nobody waits for the answers of an orphan.
        return columns.order if os.getppid() == parent else "server_ended"

    def begin() -> float:
        sys.stdout.buffer.write(READY)
        sys.stdout.buffer.flush()
        while np.isnan(columns.began):
            if os.getppid() != parent:
                sys.exit("the parent has ended")
            time.sleep(_POLL_S)
        return columns.began

    log = columns.log
    spent = send_share(log, job.mine, job.bodies, job.target, job.settings, timeout_s=job.timeout_s, look=look, begin=begin)
    sys.stdout.buffer.write(pickle.dumps(WorkerResult(log.details, log.capped, spent, log.response_bytes)))


if __name__ == "__main__":
    main()
