"""What is served and how one replica is split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.catalog.model_shape import ModelShape
from app.catalog.schema import Gpu

STORED_BITS = {"fp32": 32.0, "bf16": 16.0, "fp16": 16.0, "fp8": 8.0, "int8": 8.1, "int4": 4.4, "fp4": 4.5}
"""Bits per weight with scales: int4 groups of 128 with 16-bit scale and zero (4.25) and some layers kept wider;
nvfp4 blocks of 16 with an 8-bit scale (4.5)."""

KV_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingJob:
    """One model behind one engine. ``weights`` and ``kv_cache`` are resolved (never ``auto``)."""

    shape: ModelShape
    weights: str
    kv_cache: str = "bf16"
    input_tokens: float = 1000.0
    output_tokens: float = 300.0
    shared_prefix_tokens: float = 0.0
    prefix_reuse: float = 0.0
    max_context_tokens: float = 4096.0
    engine: str = "vllm"

    @property
    def computed_input_tokens(self) -> float:
        """Prompt tokens that must be computed: without the cached prefix and the re-used share."""
        fresh = max(self.input_tokens - self.shared_prefix_tokens, 0.0)
        return max(fresh * (1 - self.prefix_reuse), 1.0)

    @property
    def bits(self) -> float:
        """Stored bits per quantised weight."""
        return STORED_BITS[self.weights]

    def arithmetic(self, gpu: Gpu) -> str:
        """Format the tensor cores multiply in: weight-only formats are widened to 16 bits first; hardware without
        FP8 or FP4 units widens too."""
        if self.weights == "fp8" and gpu.fp8_tflops is not None:
            return "fp8"
        if self.weights == "fp4" and gpu.fp4_tflops is not None:
            return "fp4"
        if self.weights == "int8" and gpu.int8_tops is not None:
            return "int8"
        return "fp32" if self.weights == "fp32" else "bf16"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLayout:
    """Splits of one replica, arrays of one shape. Experts are split over tp ranks (ep = tp for MoE models)."""

    tp: NDArray[np.float64]
    pp: NDArray[np.float64]

    @property
    def gpus(self) -> NDArray[np.float64]:
        """GPUs of one replica."""
        return self.tp * self.pp
