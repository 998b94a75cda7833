"""What a server says of itself: counters of one model since its start, so that the difference of two views is what happened between them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerView:
    """Totals since the server started; a model that is loaded again begins at zero.

    succeeded, failed   requests that were answered, and that ended with an error
    queued_s            seconds that the succeeded ones waited before a model instance took them
    compute_input_s, compute_infer_s, compute_output_s    seconds of copying in, computing and copying out, summed over requests
    executions, inferences   calls of the model and what was computed in them: inferences / executions is the mean batch size
    cache_hits, cache_misses  tokens of prompts that were found in the prefix cache, and that were not; None: the server does not say
    gpu_memory_bytes    memory in use on all GPUs at that moment, which is no total; None: the server sees no GPU

    A decoupled model answers its calls at once and computes afterwards: its compute times say little, and its batch size nothing.
    """

    succeeded: int
    failed: int
    queued_s: float
    compute_input_s: float
    compute_infer_s: float
    compute_output_s: float
    executions: int
    inferences: int
    cache_hits: int | None
    cache_misses: int | None
    gpu_memory_bytes: int | None

    def __add__(self, other: ServerView) -> ServerView:
        """What two servers say together."""
        return ServerView(
            succeeded=self.succeeded + other.succeeded,
            failed=self.failed + other.failed,
            queued_s=self.queued_s + other.queued_s,
            compute_input_s=self.compute_input_s + other.compute_input_s,
            compute_infer_s=self.compute_infer_s + other.compute_infer_s,
            compute_output_s=self.compute_output_s + other.compute_output_s,
            executions=self.executions + other.executions,
            inferences=self.inferences + other.inferences,
            cache_hits=_sum(self.cache_hits, other.cache_hits),
            cache_misses=_sum(self.cache_misses, other.cache_misses),
            gpu_memory_bytes=_sum(self.gpu_memory_bytes, other.gpu_memory_bytes),
        )

    def __sub__(self, earlier: ServerView) -> ServerView:
        """What happened since `earlier`, which must be of the same incarnation; GPU memory stays the later one."""
        return ServerView(
            succeeded=self.succeeded - earlier.succeeded,
            failed=self.failed - earlier.failed,
            queued_s=self.queued_s - earlier.queued_s,
            compute_input_s=self.compute_input_s - earlier.compute_input_s,
            compute_infer_s=self.compute_infer_s - earlier.compute_infer_s,
            compute_output_s=self.compute_output_s - earlier.compute_output_s,
            executions=self.executions - earlier.executions,
            inferences=self.inferences - earlier.inferences,
            cache_hits=_difference(self.cache_hits, earlier.cache_hits),
            cache_misses=_difference(self.cache_misses, earlier.cache_misses),
            gpu_memory_bytes=self.gpu_memory_bytes,
        )

    @property
    def batch_size(self) -> float | None:
        """Mean inferences a call of the model; None if there was no call."""
        return self.inferences / self.executions if self.executions else None

    @property
    def cache_hit_ratio(self) -> float | None:
        """Share of looked-up prompt tokens that the prefix cache had; None if nothing was looked up or the server does not say."""
        if self.cache_hits is None or self.cache_misses is None or self.cache_hits + self.cache_misses == 0:
            return None
        return self.cache_hits / (self.cache_hits + self.cache_misses)


def _sum(one: int | None, other: int | None) -> int | None:
    """A server whose counter is absent has counted nothing yet; None if both are."""
    return None if one is None and other is None else (one or 0) + (other or 0)


def _difference(later: int | None, earlier: int | None) -> int | None:
    """A counter appears with its first event: one that was absent before began at zero."""
    return None if later is None else later - (earlier or 0)
