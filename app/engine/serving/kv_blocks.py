"""How an engine cuts its KV pool into blocks, and so the tokens and the concurrency it prints.

vLLM (``v1/core/kv_cache_utils.py`` and ``v1/kv_cache_interface.py``, releases 0.10 to 0.25): layers of one kind form
equal groups, every block holds one page of each layer of a group, and all pages are of one size: layers that need fewer
bytes per token take more tokens per page, and a state of a linear layer takes one page. SGLang
(``model_executor/pool_configurator.py``, 0.5): one pool per kind of layer, in a fixed proportion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from app.engine.serving.job import KV_BYTES, ServingJob, ServingLayout
from app.engine.serving.memory import kv_bytes_per_token_per_gpu, kv_shares, rules_of
from app.workload.architecture import kv_cache_bytes, kv_cache_bytes_per_token, kv_cache_elements

BLOCK_TOKENS = 16
ALIGN_TOKENS = 16
"""Block sizes of hybrid models are whole multiples of this (the attention kernels' smallest block)."""
ALMOST_EQUAL = 1.5
"""Kinds of layer whose counts differ by less than this form one group each, padded to the larger count."""
STATES_KEPT = 2
"""States of one sequence where prefixes are cached: the running one and the last block's (cache mode ``align``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPlan:
    """Blocks of one rank's pool."""

    block_bytes: float
    groups: int
    tokens: int
    """Tokens of the smallest block."""
    needed: int
    """Blocks one request of the longest length takes over all groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Launch arguments that shape the pool."""

    longest: float
    batch_tokens: float
    prefix_caching: bool = False
    draft_tokens: int = 0
    """Tokens a draft layer of the model proposes (MTP); 0 = no draft."""


def layer_token_bytes(job: ServingJob, layout: ServingLayout, *, sliding: bool) -> float:
    """Cache of one token in one layer on one rank, bytes; heads are copied where ranks outnumber them."""
    shape = job.shape
    heads = shape.sliding_kv_heads if sliding and shape.sliding_kv_heads else shape.kv_heads
    heads = 1 if shape.attention == "mla" else max(heads, 1)
    ranks = float(np.ravel(layout.attention_tp)[0])
    return kv_cache_elements(shape, sliding=sliding) * KV_BYTES[job.kv_cache] / min(ranks, heads)


def block_plan(job: ServingJob, layout: ServingLayout, server: Server) -> BlockPlan:
    """vLLM's blocks for a model with attention layers.

    Page = the largest of 16 tokens of each kind of attention layer and, in the fewest multiples of 16 tokens that hold
    it, one state. Block = group size x page / pipeline stages. A request needs, per group: full attention
    ceil(L / tokens); window ceil(min(window - 1 + batch, L) / tokens) + 1; states 1, or 2 with prefix caching, and one
    more per draft token.
    """
    shape = job.shape
    full_layers = shape.full_attention_layers + (1 if server.draft_tokens else 0)
    counts = [n for n in (full_layers, shape.sliding_layers, shape.linear_layers) if n]
    full, window = (layer_token_bytes(job, layout, sliding=sliding) for sliding in (False, True))
    first = full if shape.full_attention_layers else window
    page = first * BLOCK_TOKENS
    if shape.linear_layers:
        state = shape.linear_state_bytes_per_layer / float(np.ravel(layout.attention_tp)[0])
        page = ALIGN_TOKENS * max(math.ceil(state / (ALIGN_TOKENS * first)), 1) * first
    if shape.sliding_layers:
        page = max(page, window * BLOCK_TOKENS)
    size = max(counts) if max(counts) < ALMOST_EQUAL * min(counts) else min(counts)
    full_groups, window_groups, state_groups = (math.ceil(n / size) for n in (full_layers, shape.sliding_layers, shape.linear_layers))
    full_tokens, window_tokens = (round(page / each) for each in (full, window))
    needed = full_groups * math.ceil(server.longest / full_tokens)
    if window_groups:
        capped = min(shape.sliding_window - 1 + server.batch_tokens, server.longest)
        needed += window_groups * (math.ceil(capped / window_tokens) + 1)
    needed += state_groups * ((STATES_KEPT if server.prefix_caching else 1) + server.draft_tokens)
    sizes = [tokens for tokens, groups in ((full_tokens, full_groups), (window_tokens, window_groups)) if groups]
    return BlockPlan(
        block_bytes=page * size / float(np.ravel(layout.pp)[0]),
        groups=full_groups + window_groups + state_groups,
        tokens=min(sizes),
        needed=needed,
    )


def pool_tokens(job: ServingJob, layout: ServingLayout, pool: float, server: Server) -> tuple[float, float]:
    """(tokens, requests of the longest length) of a pool of ``pool`` bytes on one rank, as the engine counts them, over
    all attention data-parallel groups."""
    rules, shape = rules_of(job), job.shape
    per_token = float(np.ravel(kv_bytes_per_token_per_gpu(job, layout))[0])
    if pool <= 0 or per_token <= 0:
        return 0.0, 0.0
    groups = float(np.ravel(layout.attention_dp)[0])
    hybrid = bool(shape.sliding_layers or shape.linear_layers)
    if rules.window_share and hybrid:
        tokens = pool / (per_token + rules.window_share * _window_bytes(job, layout))
        return tokens * groups, tokens * groups / server.longest
    if rules.layer_groups and shape.kv_cache_share == 1.0:
        plan = block_plan(job, layout, server)
        blocks = math.floor(pool / plan.block_bytes)
        requests = blocks / plan.needed
        tokens = requests * server.longest if rules.tokens_by_request else blocks // plan.groups * plan.tokens
        return math.floor(tokens) * groups, requests * groups
    if hybrid and rules.windows_capped:
        return _exact(job, layout, pool, per_token, server)
    per_token += _window_bytes(job, layout)
    tokens = math.floor(pool / (per_token * BLOCK_TOKENS)) * BLOCK_TOKENS
    return tokens * groups, tokens * groups / server.longest


def _window_bytes(job: ServingJob, layout: ServingLayout) -> float:
    """Cache of one token in all sliding layers on one rank, bytes."""
    stages = float(np.ravel(layout.pp)[0])
    return job.shape.sliding_layers * layer_token_bytes(job, layout, sliding=True) / stages if job.shape.sliding_layers else 0.0


def _exact(job: ServingJob, layout: ServingLayout, pool: float, per_token: float, server: Server) -> tuple[float, float]:
    """Windows and states as large as they are, without blocks."""
    shape, width = job.shape, KV_BYTES[job.kv_cache]
    window = min(server.longest, (shape.sliding_window or server.longest) + server.batch_tokens) if shape.sliding_layers else server.longest
    share = float(np.ravel(kv_shares(job, layout))[0])
    rest = (float(kv_cache_bytes(shape, window, width)) - kv_cache_bytes_per_token(shape, width) * window) / share
    requests = pool / (per_token * server.longest + rest) * float(np.ravel(layout.attention_dp)[0])
    return requests * server.longest, requests
