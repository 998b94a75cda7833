"""An OpenAI-compatible server as a trial starts it: `python -m tests.fakes.engine_server --port N --model FOLDER --name NAME`.

It answers as tests.fakes.openai_server does, is ready after `--loads` seconds, and counts on a metrics page with vLLM's names."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import time

from tests.fakes.openai_server import Plan, Server

QUEUE_S, PREFILL_S, DECODE_S = 0.001, 0.004, 0.010
"""Of each request, as its metrics say."""


class EngineServer(Server):
    def __init__(self, plan: Plan, name: str, model: str, loads_s: float) -> None:
        super().__init__(plan)
        self.name, self.model, self.ready_at = name, model, time.monotonic() + loads_s

    def _get(self, writer: asyncio.StreamWriter, path: str) -> bool:
        if path == "/health":
            return self._plain(writer, 200 if time.monotonic() >= self.ready_at else 503, "")
        if path == "/v1/models":
            return self._plain(writer, 200, json.dumps({"data": [{"id": self.name, "root": self.model}]}))
        if path == "/version":
            return self._plain(writer, 200, json.dumps({"version": "9.9.fake"}))
        if path == "/metrics":
            return self._plain(writer, 200, self._metrics())
        return super()._get(writer, path)

    def _metrics(self) -> str:
        n = sum(len(record.sent) >= int(record.asked["max_tokens"]) for record in self.records)
        read = sum(len(record.asked["prompt"]) for record in self.records if isinstance(record.asked.get("prompt"), list))
        totals = {
            "request_success": n,
            "prefix_cache_queries": read,
            "prefix_cache_hits": 0,
            "spec_decode_num_draft_tokens": 10 * n,
            "spec_decode_num_accepted_tokens": 4 * n,
        }
        lines = ["# HELP vllm:num_requests_running Running.", "# TYPE vllm:num_requests_running gauge"]
        lines.append('vllm:num_requests_running{model_name="m"} 1.0')
        for name, value in totals.items():
            lines += [f"# TYPE vllm:{name} counter", f'vllm:{name}_total{{model_name="m"}} {value}']
        for name, each in (("queue", QUEUE_S), ("prefill", PREFILL_S), ("decode", DECODE_S)):
            lines += [f"# TYPE vllm:request_{name}_time_seconds histogram"]
            lines += [f'vllm:request_{name}_time_seconds_bucket{{le="+Inf",model_name="m"}} {n}']
            lines += [
                f'vllm:request_{name}_time_seconds_{what}{{model_name="m"}} {value}' for what, value in (("count", n), ("sum", n * each))
            ]
        return "\n".join(lines) + "\n"


async def _main(options: argparse.Namespace) -> None:
    if options.fails:
        sys.stderr.write("error: no such checkpoint\n")
        raise SystemExit(3)
    server = EngineServer(Plan(first_s=0.005, gap_s=0.001), options.name, options.model, options.loads)
    await asyncio.start_server(server.serve, "127.0.0.1", options.port, backlog=1024)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--loads", type=float, default=0.3)
    parser.add_argument("--fails", action="store_true")
    asyncio.run(_main(parser.parse_args()))
