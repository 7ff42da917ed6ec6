"""SGLang's default share of the memory for weights and KV pool, where none is asked for."""

from __future__ import annotations

import numpy as np

from app.catalog.model_shape import ModelShape
from app.engine.serving.job import FloatArray, ServingLayout
from app.units import GIB

SHARES_BY_RANKS = ((1, 0.88), (2, 0.87), (4, 0.85), (8, 0.81), (16, 0.79))
"""Up to release 0.4: smaller the more ranks (``__post_init__`` of ``server_args.py``)."""
SIZES = ((20, 2048, 8, 8), (35, 2048, 24, 80), (60, 4096, 32, 160), (160, 8192, 256, 512), (np.inf, 16_384, 512, 512))
"""Below this many GiB: prompt tokens of a chunk, largest graph batch below four ranks and from four on (pull 10975)."""
FIXED_MIB, PER_TOKEN_MIB, PER_BATCH_MIB, PER_GPU_MIB = 512.0, 1.5, 2.0, 128.0
LARGE_GIB, LARGE_RESERVE_MIB = 60.0, 10_240.0
VISION_SHARE = 0.95 * 0.958
"""Models with a vision tower: 0.95, less a tenth of how much larger the tower's layers are than ViT-L's: 27 x 1,152^2 over
24 x 1,024^2 = 1.42 (``adjust_mem_fraction_for_vlm``)."""


def static_share(shape: ModelShape, visible_bytes: float, layout: ServingLayout, *, by_ranks: bool) -> FloatArray:
    """Share per layout. From release 0.5: ``1 - (512 + 1.5 chunk + 2 batch + 128 GPUs) / memory`` in MiB, reserving at least
    10 GiB of more than 60."""
    if by_ranks:
        ranks, shares = zip(*SHARES_BY_RANKS, strict=True)
        return np.asarray(shares, dtype=float)[np.searchsorted(ranks, layout.tp, side="right") - 1]
    gib = visible_bytes / GIB
    _, chunk, few, many = next(row for row in SIZES if gib < row[0])
    batch = np.where(layout.tp < 4, few, many)
    reserved = FIXED_MIB + PER_TOKEN_MIB * chunk + PER_BATCH_MIB * batch + PER_GPU_MIB * layout.gpus
    if gib > LARGE_GIB:
        reserved = np.maximum(reserved, LARGE_RESERVE_MIB)
    share = np.maximum(1 - reserved / (gib * 1024), 0.05)
    return np.asarray(share * (VISION_SHARE if shape.modality == "text+vision" else 1.0), dtype=float)
