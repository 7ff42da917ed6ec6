"""Ask the engine about one candidate: which sizing function answers for which kind of work."""

from __future__ import annotations

from app.advice.candidates import Candidate
from app.engine.data_science import size_data_science
from app.engine.hpc import size_hpc
from app.engine.image import size_image
from app.engine.result import Shortfall, Sized
from app.engine.serving.sessions import size_conversations
from app.engine.serving.sizing import size_batch
from app.engine.speech import size_speech
from app.engine.training.sizing import size_training
from app.engine.vision import size_vision
from app.workload.demand import Demand


def size_candidate(demand: Demand, candidate: Candidate, objective: str) -> Sized | Shortfall:
    """The smallest design on the candidate that meets the demand, or the limit that stopped it."""
    platform, span, limit = candidate.platform, candidate.span, candidate.max_gpus
    if demand.training is not None and demand.shape is not None:
        return size_training(demand.training, demand.shape, platform, span, demand.precision.training, limit)
    if demand.serving is not None and demand.shape is not None:
        return size_conversations(demand.serving, demand.shape, platform, span, demand.precision, limit, objective)
    if demand.batch is not None and demand.shape is not None:
        return size_batch(demand.batch, demand.shape, platform, span, demand.precision, limit)
    if demand.vision is not None:
        return size_vision(demand.vision, platform, span, limit)
    if demand.speech is not None and demand.shape is not None:
        return size_speech(demand.speech, demand.shape, platform, span, limit)
    if demand.image is not None and demand.shape is not None:
        return size_image(demand.image, demand.shape, platform, span, limit)
    if demand.hpc is not None:
        return size_hpc(demand.hpc, platform, span, limit)
    if demand.data_science is not None:
        return size_data_science(demand.data_science, platform, span, limit)
    raise ValueError(f"no sizing for workload {demand.workload!r}")
