"""Whether a plain CPU server does a job: one question for every kind of work that is not a language model."""

from __future__ import annotations

from app.engine.data_science import cpu_data_science
from app.engine.host import CpuFit
from app.engine.hpc import cpu_hpc
from app.engine.image import cpu_image
from app.engine.result import Shortfall
from app.engine.speech import cpu_speech
from app.engine.vision import cpu_vision
from app.workload.demand import Demand


def size_cpu_job(demand: Demand) -> CpuFit | Shortfall | None:
    """One CPU server for the demand, the limit that stops it, or None for work this module does not know."""
    if demand.hpc is not None:
        return cpu_hpc(demand.hpc)
    if demand.data_science is not None:
        return cpu_data_science(demand.data_science)
    if demand.vision is not None:
        return cpu_vision(demand.vision)
    if demand.speech is not None and demand.shape is not None:
        return cpu_speech(demand.speech, demand.shape)
    if demand.image is not None and demand.shape is not None:
        return cpu_image(demand.image, demand.shape)
    return None
