"""Random workloads of one replica on which formulas and simulation are compared."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from app.engine.platform import Platform
from app.engine.serving.job import ServingJob, ServingLayout
from app.engine.serving.memory import cache_bytes_per_request, kv_pool_bytes, memory_rules, sequence_limit
from tests.engine.serving.conftest import box, job
from tests.engine.serving.simulator import Lengths, StepTimes, product_steps

MACHINES = (
    ("meta-llama/Llama-3.1-8B-Instruct", "bf16", ("l40s", "a100-sxm-80gb", "h100-sxm-80gb", "rtx-4090"), (1, 2)),
    ("Qwen/Qwen2.5-14B-Instruct", "bf16", ("l40s", "a100-sxm-80gb", "h100-sxm-80gb"), (1, 2, 4)),
    ("Qwen/Qwen2.5-32B-Instruct", "bf16", ("a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb"), (2, 4)),
    ("meta-llama/Llama-3.3-70B-Instruct", "fp8", ("h100-sxm-80gb", "h200-sxm-141gb", "mi300x", "b200-sxm-180gb"), (2, 4, 8)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One replica, its requests, and the load: a share of the rate it carries with every place taken, or of the places."""

    job: ServingJob
    platform: Platform
    layout: ServingLayout
    lengths: Lengths
    places: int
    load: float
    closed: bool
    seed: int

    @property
    def users(self) -> int:
        """Requests in flight of a closed loop."""
        return max(int(self.load * self.places), 1)

    def steps(self) -> StepTimes:
        """The replica's step times."""
        longest = 4 * (self.lengths.prompt + self.lengths.answer)
        return product_steps(self.job, self.platform, self.layout, self.places, longest)


def random_workload(seed: int) -> Workload:
    """A workload drawn from a seed."""
    generator = random.Random(seed)
    name, weights, gpus, splits = generator.choice(MACHINES)
    platform = box(generator.choice(gpus))
    tp = generator.choice(splits)
    layout = ServingLayout(tp=np.array([[float(tp)]]), pp=np.array([[1.0]]))
    closed = generator.random() < 0.3
    spread = generator.choice((0.5, 1.0) if closed else (0.0, 0.5, 1.0))
    lengths = Lengths(
        prompt=round(2 ** generator.uniform(7, 13)),
        answer=round(2 ** generator.uniform(6, 10)),
        prompt_cv=generator.choice((0.0, 0.5, 1.0)),
        answer_cv=spread,
    )
    served = job(
        name,
        weights=weights,
        input_tokens=float(lengths.prompt),
        output_tokens=float(lengths.answer),
        input_cv=lengths.prompt_cv,
        output_cv=lengths.answer_cv,
        max_context_tokens=4.0 * (lengths.prompt + lengths.answer),
    )
    pool = float(np.ravel(kv_pool_bytes(served, platform, layout))[0])
    mean = float(np.ravel(cache_bytes_per_request(served, served.running_context_tokens, layout))[0])
    places = int(min(pool / mean, sequence_limit(platform, memory_rules("vllm")), 256))
    if places < 4:
        return random_workload(seed + 1000)
    return Workload(
        job=served, platform=platform, layout=layout, lengths=lengths, places=places, load=generator.uniform(0.2, 0.85),
        closed=closed, seed=seed,
    )  # fmt: skip
