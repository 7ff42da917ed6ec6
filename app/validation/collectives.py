"""Published collective measurements against :func:`app.engine.collectives.collective_time_s`."""

from __future__ import annotations

COLLECTIVE_NAMES = {
    "all_reduce": "all_reduce",
    "allreduce": "all_reduce",
    "all_gather": "all_gather",
    "allgather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "broadcast": "broadcast",
    "sendrecv": "send_recv",
    "send_recv": "send_recv",
}
"""nccl-tests spellings to ours."""


def sweep_link_kind(text: str) -> str:
    """Link kind named in a sweep's free text: ``NVLink5 (one 4-GPU tray)`` is ``nvlink5``; empty = none known."""
    lowered = text.lower()
    for kind in ("nvlink2", "nvlink3", "nvlink4", "nvlink5", "nvlink6"):
        if kind in lowered:
            return kind
    for generation in "34567":
        if f"pcie gen{generation}" in lowered or f"pcie{generation}" in lowered:
            return f"pcie{generation}"
    return ""
