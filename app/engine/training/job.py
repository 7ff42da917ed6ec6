"""What is trained and how it is laid out: the two inputs beside the platform."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from app.catalog.model_shape import ModelShape

RECOMPUTE = ("none", "selective", "full")
SHARDING = ("none", "zero1", "zero2", "zero3")
OFFLOAD = ("none", "optimizer", "parameters")
"""What waits in host memory: nothing; optimizer state, updated there (arXiv 2101.06840); weights, too, which come layer by layer."""
OPTIMIZER_BYTES = {"adamw": 8.0, "adamw_8bit": 2.0, "adafactor": 0.1, "sgd": 4.0, "muon": 4.0}
"""State per trained parameter: two fp32 moments; two 8-bit ones; row and column sums; one momentum (sgd, muon).
Sources: arXiv 1412.6980, 2110.02861, 1804.04235; Muon keeps one momentum per matrix parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """The work of one optimizer step. base_bits: stored bits of a frozen base; precision: bf16, fp16, fp8 or fp4."""

    shape: ModelShape
    task: str
    seq_len: int
    global_batch_sequences: float
    optimizer: str = "adamw"
    precision: str = "bf16"
    lora_rank: int = 0
    base_bits: float = 16.0
    flash_attention: bool = True
    software_year: float = 2026.0
    """Year of the training software: kernels and overlap improve with it."""
    fill: float = 1.0
    """Share of the ``seq_len`` positions of a sequence that hold tokens, where padding is not computed."""
    tuned: bool = False
    """A record attempt: kernels launched as graphs, so that the host hardly counts."""
    eager: bool = False
    """Norms and activation functions run as single PyTorch operations, each of which keeps what its own gradient needs."""
    fused_loss: bool = False
    """Logits are worked out in chunks and never stored whole."""

    @property
    def sequence_parallel(self) -> bool:
        """Whether tensor-parallel ranks also split norms and residuals (arXiv 2205.05198, May 2022; usual from 2023 on)."""
        return self.software_year >= 2023

    @property
    def gradient_bytes(self) -> float:
        """Bytes of one stored gradient: 4 in fp32; 2 in fp16 and where adapters are trained; else summed in fp32 (4), before 2023 in a
        copy beside the 16-bit one (6)."""
        if self.precision == "fp32":
            return 4.0
        if self.frozen_base or self.precision == "fp16" or self.task == "full":
            return 2.0
        return 4.0 if self.software_year >= 2023 else 6.0

    @property
    def head_share(self) -> float:
        """Share of tokens the vocabulary is scored for: all; for encoders the masked 15% (arXiv 1810.04805), none in
        fine-tuning, which puts a small head in its place."""
        if self.shape.modality != "encoder":
            return 1.0
        return 0.15 if self.task == "pretraining" else 0.0

    @property
    def frozen_base(self) -> bool:
        """Only adapters are trained."""
        return self.task in ("lora", "qlora")

    @property
    def trained_parameters(self) -> float:
        """Parameters with gradients: all, or the two low-rank factors beside every linear layer (arXiv 2106.09685)."""
        shape = self.shape
        if not self.frozen_base:
            return shape.params_b * 1e9
        kv_width = shape.kv_heads * shape.head_dim
        q_width = shape.heads * shape.head_dim
        attention = 4 * shape.hidden + 2 * q_width + 2 * kv_width
        width = shape.ffn_dense or shape.moe_ffn * max(shape.top_k, 1)
        mlp = (3 if shape.gated_mlp else 2) * (shape.hidden + width)
        return float(shape.layers * self.lora_rank * (attention + mlp))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLayout:
    """Arrays of one common shape: parallel degrees, micro-batch in sequences, and indices into RECOMPUTE, SHARDING, OFFLOAD.

    vp: interleaved stages per rank. ep divides tp x dp x cp ranks and adds no GPUs. shard_ranks: replicas that share one
    copy of what ZeRO or FSDP splits (hybrid sharding, arXiv 2304.11277); 0 is all of them.
    """

    tp: NDArray[np.float64]
    pp: NDArray[np.float64]
    dp: NDArray[np.float64]
    ep: NDArray[np.float64]
    cp: NDArray[np.float64]
    vp: NDArray[np.float64]
    micro_batch: NDArray[np.float64]
    recompute: NDArray[np.float64]
    sharding: NDArray[np.float64]
    shard_ranks: NDArray[np.float64]
    offload: NDArray[np.float64]

    @property
    def replicas(self) -> NDArray[np.float64]:
        """Ranks that hold the same weights before any sharding: dp x cp."""
        return self.dp * self.cp

    @property
    def shard_group(self) -> NDArray[np.float64]:
        """Ranks one copy of sharded state is split over."""
        return np.where(self.shard_ranks > 0, np.minimum(self.shard_ranks, self.replicas), self.replicas)

    @property
    def gpus(self) -> NDArray[np.float64]:
        """GPUs of each layout."""
        return self.tp * self.pp * self.dp * self.cp

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> TrainingLayout:
        """The layouts at an index or mask."""
        return TrainingLayout(**{item.name: getattr(self, item.name)[index] for item in fields(self)})

    @staticmethod
    def of(**values: float) -> TrainingLayout:
        """One layout from plain numbers; what is left out is 1 (0 for the indices and shard_ranks)."""
        names = [item.name for item in fields(TrainingLayout)]
        defaults = {name: 0.0 if name in ("recompute", "sharding", "shard_ranks", "offload") else 1.0 for name in names}
        return TrainingLayout(**{name: np.array([float(values.get(name, defaults[name]))]) for name in names})
