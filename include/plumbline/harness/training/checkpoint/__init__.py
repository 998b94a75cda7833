"""Checkpoints that can be trusted: complete or absent, and verified before anything is resumed from them.

A checkpoint is a folder `step-00000080` (80 steps are done) with its files and a `manifest.json`. It is built under another name: files
first, synced; then the manifest with each one's size and SHA-256, synced; then one rename. A process killed at any moment leaves either the
whole checkpoint or a draft that no run resumes from. The checksums are this harness's own care: they are taken once the bytes are durable, and
compared once they are loaded, and no time of a checkpoint has them in it.

    folder      names, drafts, manifests, one rename; what is kept
    writing     files while they are written, checksums, syncs, the page cache
    state       what is saved, and put back
    whole       one process that holds the whole state writes one file, and waits
    sharded     `torch.distributed.checkpoint`: state that is spread over ranks, or written beside the training
    keeper      which of the two, when, and what the log says of it

`whole` does not use `torch.distributed.checkpoint`: there is nothing to shard, and the other way costs CPU time, 1.2 times as much for a
save and 2.9 times for a load, of which each tensor is a parcel of its own (124 MB, fp32 model with AdamW, local disk; medians of 8).
"""

from __future__ import annotations

from plumbline.harness.training.checkpoint.folder import Damaged, NothingToResume, discard_drafts, name_of

__all__ = ["Damaged", "NothingToResume", "discard_drafts", "name_of"]
