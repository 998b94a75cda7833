"""Where one training step's time goes, and what changes it: `python perf/training_step.py [--workload W] [--device cuda] [--profile]`.

One process takes steps of a declared workload on random token ids, once as declared and once for each variant: another attention kernel, a loss
that is not compiled, heads of half the width, one micro-batch a step. A line gives the median step on the wall clock, tokens a second, FLOP/s
with the causal mask's pairs left out and counted, each as a share of the published rate, and peak memory. `--profile` adds the kernels of a step.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "include"))

import torch
from torch.nn import functional as F

from plumbline.declarations import load
from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.training.models import build_model, repeated_layers
from plumbline.harness.training.worker.torch_setup import attention_kernel, build_optimizer, clip_gradients
from plumbline.kinds.arithmetic.flops import flops_per_step
from plumbline.kinds.arithmetic.peak_flops import published_peak

WARM, STEPS, KERNELS = 3, 8, 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="pretrain-1b-gpu", help="a language model trained by one process in bf16")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    workload = load().workloads[options.workload]
    assert isinstance(workload, TrainingWorkload)
    device = torch.device(options.device)
    print(torch.__version__, torch.cuda.get_device_name() if options.device == "cuda" else "cpu", flush=True)
    measure("as declared", workload, device, profile=options.profile)
    for name, variant, loss_compiled in variants(workload):
        measure(name, variant, device, loss_compiled=loss_compiled)


def variants(workload: TrainingWorkload) -> Iterator[tuple[str, TrainingWorkload, bool]]:
    for kernel in ("flash", "cudnn", "auto"):
        if kernel != workload.attention:
            yield f"attention {kernel}", workload.model_copy(update={"attention": kernel}), True
    yield "loss not compiled", workload, False
    heads = {name: 2 * getattr(workload.model, name) for name in ("heads", "kv_heads") if hasattr(workload.model, name)}
    yield "heads of half the width", workload.model_copy(update={"model": workload.model.model_copy(update=heads)}), True
    yield "one micro-batch", workload.model_copy(update={"batch": workload.batch.model_copy(update={"accumulation": 1})}), True


def measure(name: str, workload: TrainingWorkload, device: torch.device, *, loss_compiled: bool = True, profile: bool = False) -> None:
    """Print the line of one variant, or why it failed."""
    torch._dynamo.reset()
    torch.manual_seed(workload.seed)
    model = build_model(workload.model.model_dump(mode="json")).to(device)
    if workload.compile:
        for layer in repeated_layers(model):
            layer.compile()
    loss = torch.compile(cross_entropy) if workload.compile and loss_compiled else cross_entropy
    optimizer = build_optimizer(workload.optimizer.model_dump(mode="json"), model.parameters())
    batch, accumulation = workload.batch, workload.batch.accumulation
    ids = torch.randint(0, getattr(workload.model, "vocabulary", 0), (batch.micro * accumulation, batch.sequence + 1), device=device)

    def step() -> None:
        for part in ids.split(batch.micro):  # type: ignore[no-untyped-call]
            with torch.autocast(device.type, torch.bfloat16):
                value = loss(model(part[:, :-1]), part[:, 1:]) / accumulation
            value.backward()  # type: ignore[no-untyped-call]
        if workload.optimizer.clip is not None:
            clip_gradients(optimizer, workload.optimizer.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if device.type == "cuda":
            torch.cuda.synchronize()

    try:
        with attention_kernel(workload.attention):
            for _ in range(WARM):
                step()
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats()
            seconds = median(elapsed(step) for _ in range(STEPS))
            if profile:
                show_kernels(step, device)
    except RuntimeError as error:
        print(f"{name:26s} failed: {str(error)[:120]}", flush=True)
        return
    peak = published_peak(torch.cuda.get_device_name() if device.type == "cuda" else None, "bf16")
    rates = []
    for convention, full in (("causal", False), ("full", True)):
        rate = (flops_per_step(workload, full_attention=full) or 0.0) / seconds
        rates.append(f"{convention} {rate / 1e12:6.1f} TFLOP/s" + (f" = {rate / peak:5.1%}" if peak else ""))
    memory = f"{torch.cuda.max_memory_allocated() / 1e9:5.1f} GB" if device.type == "cuda" else ""
    print(
        f"{name:26s} {seconds * 1e3:8.1f} ms  {workload.tokens_per_step / seconds:9,.0f} tokens/s  {'  '.join(rates)}  {memory}", flush=True
    )


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def elapsed(step: Any) -> float:
    began = time.monotonic()
    step()
    return time.monotonic() - began


def show_kernels(step: Any, device: torch.device) -> None:
    from torch.profiler import ProfilerActivity, profile

    gpu = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if gpu else ProfilerActivity.CPU]) as seen:
        step()
    spent = [((e.self_device_time_total if gpu else e.self_cpu_time_total) / 1e3, e.count, e.key) for e in seen.key_averages()]
    for milliseconds, count, kernel in sorted(spent, reverse=True)[:KERNELS]:
        print(f"    {milliseconds:8.2f} ms {count:5d} × {kernel[:110]}", flush=True)


if __name__ == "__main__":
    main()
