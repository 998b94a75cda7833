from __future__ import annotations

from dataclasses import dataclass

TOTALS = {"vllm:spec_decode_num_draft_tokens": 0, "vllm:spec_decode_num_accepted_tokens": 0}


@dataclass
class Counter:
    name: str
    value: int


def get_metrics_snapshot() -> list[Counter]:
    return [Counter(name, value) for name, value in TOTALS.items()]
