"""What is served and how one replica is split."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.catalog.model_shape import ModelShape
from app.catalog.schema import Gpu

FloatArray = NDArray[np.float64]

STORED_BITS = {"fp32": 32.0, "bf16": 16.0, "fp16": 16.0, "fp8": 8.0, "int8": 8.1, "int4": 4.25, "fp4": 4.5, "gguf": 4.85}
"""Bits per quantised weight with scales: int4 in groups of 128 with a 16-bit scale and zero (4.25); nvfp4 in blocks of 16
with an 8-bit scale (4.5); gguf: the usual Q4_K_M mixture (4.85), read by kernels that are not fused into the engine."""

KV_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0, "fp8": 1.0}
FOUR_BIT = ("int4", "fp4")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingJob:
    """One model behind one engine. ``weights`` and ``kv_cache`` are resolved (never ``auto``)."""

    shape: ModelShape
    weights: str
    kv_cache: str = "bf16"
    input_tokens: float = 1000.0
    output_tokens: float = 300.0
    input_cv: float = 0.0
    """Standard deviation of the lengths of prompts (log-normal) against their mean; 0: all are as long as stated, which is what
    benchmarks send and the least waiting there is."""
    output_cv: float = 0.0
    """The same for answers (gamma): 1 = exponential. Production traffic: prompts log-normal with a Pareto tail, answers
    exponential ("ServeGen", arXiv 2505.09999)."""
    shared_prefix_tokens: float = 0.0
    prefix_reuse: float = 0.0
    max_context_tokens: float = 4096.0
    speculative_tokens: float = 0.0
    """Tokens a draft head proposes before each pass; 0 = plain decoding."""
    acceptance_rate: float = 0.0
    """Probability that a proposed token is accepted, each taken as independent of the others."""
    engine: str = "vllm"
    engine_version: str = ""
    """Release, for the memory rules; empty = the newest known."""
    year: float = 2026.5
    """Year, with fraction, of the engine's release: schedulers and kernels got faster from year to year."""

    @property
    def computed_input_tokens(self) -> float:
        """Prompt tokens that must be computed: without the cached prefix and the re-used share."""
        fresh = max(self.input_tokens - self.shared_prefix_tokens, 0.0)
        return max(fresh * (1 - self.prefix_reuse), 1.0)

    @property
    def tokens_per_pass(self) -> float:
        """Tokens a sequence gains with one pass: ``(1 - a^(k+1)) / (1 - a)`` of k proposed and an acceptance rate a
        (Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", arXiv 2211.17192, equation 1)."""
        proposed, accepted = self.speculative_tokens, self.acceptance_rate
        return float((1 - accepted ** (proposed + 1)) / (1 - accepted))

    @property
    def running_context_tokens(self) -> float:
        """Mean context of a request that is being answered. A moment of the load finds long answers more often, and each
        at a random age: ``L (1 + c^2) / 2`` tokens in the mean (renewal theory)."""
        return self.input_tokens + self.output_tokens * (1 + self.output_cv**2) / 2

    @property
    def bits(self) -> float:
        """Stored bits per quantised weight."""
        return STORED_BITS[self.weights]

    @property
    def dense_bits(self) -> float:
        """Stored bits of what is no routed expert. Checkpoints born with 4-bit experts (gpt-oss, Kimi), and 4-bit floats of
        MLA models, keep attention and shared parts in 16 bits (their model cards)."""
        kept_wide = self.shape.native_precision in FOUR_BIT or (self.weights == "fp4" and self.shape.attention == "mla")
        return 16.0 if self.weights in FOUR_BIT and self.shape.is_moe and kept_wide else self.bits

    @property
    def end_bits(self) -> float:
        """Stored bits of the embedding and the output head, which quantisation leaves in 16 bits."""
        return max(self.bits, 16.0)

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

    def dense_arithmetic(self, gpu: Gpu) -> str:
        """The same for what is no routed expert."""
        return "bf16" if self.dense_bits == 16.0 and self.weights != "fp32" else self.arithmetic(gpu)


def _one() -> FloatArray:
    return np.array(1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLayout:
    """Splits of one replica, arrays that broadcast together.

    tp: GPUs of one pipeline stage; experts are split over all of them. attention_dp: groups of a stage that hold
    different sequences and whole copies of the attention weights (1 = plain tensor parallelism).
    """

    tp: FloatArray
    pp: FloatArray
    attention_dp: FloatArray = field(default_factory=_one)

    @property
    def gpus(self) -> FloatArray:
        """GPUs of one replica."""
        return self.tp * self.pp

    def chosen(self, rows: NDArray[np.bool_] | slice) -> ServingLayout:
        """Some of the layouts; the first axis of every split counts them."""
        return ServingLayout(tp=self.tp[rows], pp=self.pp[rows], attention_dp=self.attention_dp[rows])

    @property
    def attention_tp(self) -> FloatArray:
        """Ranks that share one sequence's attention."""
        return np.maximum(self.tp / self.attention_dp, 1.0)
