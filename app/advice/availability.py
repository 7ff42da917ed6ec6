"""Redundancy and growth: what is added to the plain answer, and why."""

from __future__ import annotations

from dataclasses import replace

from app.engine.result import Sized


def with_availability(sized: Sized, availability: str, max_gpus: int) -> Sized:
    """Replicas added so that the asked load survives the loss of one server (N+1) or of half (2N).

    A job across several servers is restarted from its checkpoint on a spare server instead, which is a line
    of the bill of materials, so its layout stays as it is.
    """
    if availability == "none" or sized.training is not None or sized.job is not None:
        return sized
    job, per_server = sized.parallel.gpus, sized.platform.gpus_per_server
    if availability == "2n":
        return replace(sized, replicas=2 * sized.replicas)
    per_failure = max(per_server // job, 1) if sized.servers > 0 else 1
    lost = min(per_failure, sized.replicas)
    extra = replace(sized, replicas=sized.replicas + lost)
    if extra.servers == sized.servers:
        # The added replicas would share the server that may fail: a second server is the point.
        extra = replace(sized, replicas=sized.replicas + per_failure)
    return extra
