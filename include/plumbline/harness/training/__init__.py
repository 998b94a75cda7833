"""Measures a training workload: real PyTorch training in worker processes, one for each rank, or a team's own script.

    plan             nodes, ranks and their cores, the runs of a trial and the specification of each worker process
    worker_protocol  what both sides share: the specification, exit codes, the step log
    job              the harness's side: runs in their order, other nodes, worker processes, injected faults
    worker           the process of one rank: `python -m plumbline.harness.training.worker spec.json PARENT_PID`
    script           the process around one rank of a script, or around what launches its ranks
    models, learners, dataset, checkpoint, distributed   what a worker is made of
    flops            arithmetic of a model, published peak rates
    analysis         records → metric rows, curves, stages, events, evidence, judgements

The worker's start-up is measured: plan, worker_protocol and this file import the standard library alone.
"""
