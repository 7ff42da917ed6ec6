"""The shape of a model: what the engine needs to count parameters, FLOP, activations and cache bytes.

One :class:`ModelShape` comes from a catalogue row, a Hugging Face ``config.json`` or, when only a
size is known, from an inferred architecture that says so in ``origin``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Attention = Literal["mha", "gqa", "mqa", "mla", "none"]
Modality = Literal["text", "text+vision", "encoder", "embedding", "asr", "diffusion_image", "diffusion_video", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Layer counts and widths of one model. Counts are whole; widths are elements, not bytes.

    Attention layers divide into ``full_attention_layers`` (cache grows with context),
    ``sliding_layers`` (cache capped at ``sliding_window`` tokens) and ``linear_layers`` (SSM or linear
    attention: fixed state per sequence, ``linear_state_bytes_per_layer``). A layer with both attention and an SSM
    side by side counts as both.
    """

    id: str
    """Catalogue id or Hugging Face id; for an inferred shape, a description such as ``dense-70b``."""
    name: str
    origin: Literal["catalog", "hf_config", "inferred"]
    modality: Modality = "text"
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_dense: int
    """Inner width of a dense MLP (per block); 0 when every layer is MoE."""
    gated_mlp: bool = True
    """True: three matrices (SwiGLU); False: two (GELU)."""
    vocab: int
    tied_embeddings: bool = False
    attention: Attention = "gqa"
    full_attention_layers: int
    sliding_layers: int = 0
    sliding_window: int = 0
    sliding_kv_heads: int = 0
    """KV heads of sliding layers where they differ; 0 = same as ``kv_heads``."""
    sliding_head_dim: int = 0
    linear_layers: int = 0
    linear_state_bytes_per_layer: float = 0.0
    """Fixed state per sequence and layer, in bytes as engines keep it."""
    linear_parameters_per_layer: float = 0.0
    mlp_layers: int = 0
    """Layers with a dense MLP."""
    moe_layers: int = 0
    experts: int = 0
    shared_experts: int = 0
    top_k: int = 0
    moe_ffn: int = 0
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    qk_nope_dim: int = 0
    qk_rope_dim: int = 0
    v_head_dim: int = 0
    learned_positions: int = 0
    """Rows of a learned position table (GPT-2/BERT style); 0 = rotary or none."""
    max_context: int = 0
    """Longest context the model was made for; 0 = not known."""
    native_precision: str = "bf16"
    """Precision the published checkpoint ships in."""
    expert_hidden: int = 0
    """Width experts run at where it differs from ``hidden`` (latent MoE); 0 = ``hidden``."""
    shared_ffn: int = 0
    """Inner width of a shared expert where it differs from ``moe_ffn``."""
    gated_attention: bool = False
    """The attention output is gated by a second projection as wide as the query."""
    shared_kv: bool = False
    """One projection serves as key and value."""
    attention_parameters_per_layer: float = 0.0
    """Parameters of one attention layer where low-rank projections make it differ from the widths; 0 = from the widths."""
    kv_cache_share: float = 1.0
    """Cache entries kept per token and full-attention layer, mean over the layers; below 1 where the model merges entries."""
    other_params_b: float = 0.0
    """Parameters the components above do not describe (NAS-pruned widths, index heads, MTP), billions."""
    vision_params_b: float = 0.0
    """Vision tower and projector, billions of parameters."""
    image_tokens: int = 0
    """Tokens of the largest picture a tower of any resolution takes; 0 = pictures are cut into tiles of one size."""
    params_b: float
    """Total parameters in billions: the published count where there is one, else computed from the shape."""
    active_params_b: float
    """Parameters used per token, billions; equals ``params_b`` for dense models."""
    kv_bytes_per_token_bf16_published: float = 0.0
    """The catalogue's own figure, for checks; 0 = none."""

    @property
    def has_layers(self) -> bool:
        """Whether depth and width are known. False: only a size is published, so nothing may be counted from the layers."""
        return self.layers > 0 and self.hidden > 0

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return self.experts > 0 and self.moe_layers > 0
