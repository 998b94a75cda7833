"""Trains a small character model on CPUs or GPUs, alone or under torchrun's variables, and goes on from its newest checkpoint with --resume."""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

TEXT = Path(__file__).read_bytes()


class Model(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(256, width)
        self.mix = torch.nn.GRU(width, width, batch_first=True)
        self.head = torch.nn.Linear(width, 256)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.mix(self.embed(ids))[0])


def batch(step: int, rank: int, size: int, length: int) -> torch.Tensor:
    """Bytes of this file, other ones for each step and rank; the same when a step is done again."""
    starts = torch.randint(len(TEXT) - length - 1, (size,), generator=torch.Generator().manual_seed(step * 1009 + rank))
    return torch.tensor([list(TEXT[start : start + length + 1]) for start in starts.tolist()])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--block-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--checkpoint-every", type=int, default=20)
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()

    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"
    if world > 1:
        dist.init_process_group("nccl" if device != "cpu" else "gloo")
    torch.manual_seed(1)
    model = Model(args.width).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    folder, first = Path("checkpoints"), 0
    folder.mkdir(exist_ok=True)
    if args.resume and (saved := sorted(folder.glob("step-*.pt"))):
        state = torch.load(saved[-1], map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    for step in range(first, args.steps):
        ids = batch(step, rank, args.batch_size, args.block_size).to(device)
        loss = cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        if world > 1:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad.div_(world)
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
        # Each node has its own disk, and all must go on from the same step.
        if os.environ.get("LOCAL_RANK", "0") == "0" and (step + 1) % args.checkpoint_every == 0:
            written = folder / "writing"
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, written)
            written.rename(folder / f"step-{step:06d}.pt")
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
