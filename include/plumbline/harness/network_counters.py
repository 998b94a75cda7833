"""Counters of the network that the kernel keeps for this process's network namespace: a pod's own, or the machine's with all its programs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from plumbline.harness.environment.sysfs import ROOT, read_int, read_text
from plumbline.metrics import Phase
from plumbline.results import MetricRow, metric_row, share_row

_RDMA_ERRORS = (
    *("symbol_error", "port_rcv_errors", "port_rcv_remote_physical_errors", "link_error_recovery", "link_downed", "port_xmit_discards"),
    *("packet_seq_err", "out_of_sequence", "rnr_nak_retry_err", "local_ack_timeout_err", "implied_nak_seq_err", "rx_icrc_encapsulated"),
    *("req_transport_retries_exceeded", "rx_drops", "rdma_read_wr_err", "rdma_write_wr_err", "retrans_timeout_events"),
)
"""Names that Mellanox's, RoCE's and EFA's drivers use, in `counters` and `hw_counters` of a port."""
RDMA = "rdma."


def read_counters(root: Path = ROOT) -> Counter[str]:
    """`received` and `sent` (bytes, without the loopback interface), `segments` and `retransmitted` of TCP, and `rdma.<adapter>.<name>` of each
    counter of errors. What the kernel does not count is absent."""
    counts: Counter[str] = Counter()
    for line in (read_text(root / "proc/net/dev") or "").splitlines()[2:]:
        name, _, numbers = line.partition(":")
        fields = numbers.split()
        if name.strip() != "lo" and len(fields) >= 9:
            counts.update(received=int(fields[0]), sent=int(fields[8]))
    tcp = [line.split()[1:] for line in (read_text(root / "proc/net/snmp") or "").splitlines() if line.startswith("Tcp:")]
    if len(tcp) == 2:
        shown = dict(zip(*tcp, strict=False))
        counts.update(segments=int(shown["OutSegs"]), retransmitted=int(shown["RetransSegs"]))
    for port in (root / "sys/class/infiniband").glob("*/ports/*"):
        for file in (port / folder / name for folder in ("counters", "hw_counters") for name in _RDMA_ERRORS):
            if (value := read_int(file)) is not None:
                counts[f"{RDMA}{port.parts[-3]}.{file.name}"] += value
    return counts


def counter_rows(phase: Phase, gained: Counter[str]) -> list[MetricRow]:
    """The rows of a phase in which the counters gained so much; of counters that are not there none."""
    rows = [metric_row(f"network_{name}_bytes", gained[name], 1, phase=phase) for name in ("received", "sent") if name in gained]
    if gained["segments"] > 0:
        # A handshake that is sent again counts once as a retransmission, and some kernels do not count it as a segment.
        rows.append(share_row("tcp_retransmit_share", min(gained["retransmitted"], gained["segments"]), gained["segments"], phase=phase))
    errors = {name.removeprefix(RDMA): n for name, n in gained.items() if name.startswith(RDMA)}
    if errors:
        which = ", ".join(f"{name} {n}" for name, n in sorted(errors.items()) if n)
        rows.append(metric_row("rdma_errors", sum(errors.values()), len(errors), phase=phase, method=which or None))
    return rows
