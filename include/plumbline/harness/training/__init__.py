"""Measures a training workload: real PyTorch training of a small transformer in a process of its own, or in several that train together.

The room in the order of a trial:

    plan          what a worker process is told, and which steps each of the trial's runs does
    dataset       generated or a team's own: tokens, pairs, images, and the batch of each step
    models        the architectures, their weights from a seed or from a file; weights writes that file
    learners      what each task learns: its batches, its loss
    flops         the arithmetic that a model asks for
    precision, kernels, layers, optimizers   what a declared precision, attention, compilation, optimizer means for the loop
    checkpoint    durable, verified, resumable state
    steplog       the worker's append-only record; survives a SIGKILL
    place         which node and ranks of a job this harness is, and which cores each rank gets
    device        when the device is done, and how fast it multiplies
    feed, timing  batches that come ahead; the device's own clock
    distributed   one rank's part in the job: process group, gradients, shared or spread state
    trainer       the training loop of one rank
    closing       what is verified after the last step
    worker        its process (`python -m plumbline.harness.training.worker spec.json`)
    supervisor    starts, follows and ends the workers of one node
    link, network messages between the harnesses of two nodes; the interface their ranks use
    team          the other nodes, as node 0 sees them
    follower      what the harness of any other node does
    job           one run over all its ranks, as node 0 sees it
    faults        breaks a run off as declared
    attempts      what each end of a run cost
    trial         the runs of one trial in their order
    records       everything that the workers left behind, and the questions asked of it
    merge         the steps of all ranks as the steps of the job, and which rank is slow
    steady        from where on steps are steady; statistics of their times
    rates, peaks  how fast it was: steady, whole run, by device, against the hardware's peaks
    curves        loss over steps, throughput over time, times over ranks
    recovery      what broke off and what it cost
    energy        the GPUs' power over the tokens trained
    summary       records → metric rows, curves, stages, events, evidence
    verdicts      whether the numbers may be believed
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plumbline.declarations import Trial
    from plumbline.harness.measurement import Measurement
    from plumbline.harness.progress import Progress
    from plumbline.harness.watch import Watch


def measure(trial: Trial, workdir: Path, progress: Progress, watch: Watch) -> Measurement:
    """Run one training trial below `workdir` (must exist) and return everything that was measured.

    Judged here is what the training itself shows; who else used the cores meanwhile is judged by whoever owns the watch.

    Raises TrialFailed with a failure class when it could not be measured; no process of the trial outlives the call.
    """
    # Imported here: the worker imports this package too, and each import there would count as start-up time of the training process.
    from plumbline.harness.training.energy import energy_rows
    from plumbline.harness.training.trial import measure_training

    measured = measure_training(trial, workdir, progress, watch)
    measured.metrics += energy_rows(measured.metrics, watch.gpu_rows())
    return measured
