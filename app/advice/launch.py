"""Launch settings of the design, to copy: engine arguments for serving, layout flags for training."""

from __future__ import annotations

import json
import math

from app.advice.manifest import serving_manifest
from app.advice.recommendation import Launch
from app.catalog.model_shape import ModelShape
from app.engine.result import Sized
from app.units import GB, GIB
from app.workload.demand import Demand

SHARDING_FLAGS = {
    "zero1": ["--use-distributed-optimizer"],
    "zero2": ["--use-megatron-fsdp", "--use-distributed-optimizer", "--data-parallel-sharding-strategy=optim_grads"],
    "zero3": ["--use-megatron-fsdp", "--use-distributed-optimizer", "--data-parallel-sharding-strategy=optim_grads_params"],
}
"""Megatron Core's names for what the data-parallel ranks divide (its Megatron-FSDP guide)."""


def launch_settings(demand: Demand, sized: Sized) -> list[Launch]:
    """Settings for the engine of the design; empty for work that has no such engine."""
    if sized.serving is not None and sized.engine and demand.shape is not None:
        context = int(demand.serving.max_context_tokens) if demand.serving is not None else 0
        kept = sized.sessions.gb_per_server * sized.servers / sized.replicas if sized.sessions and sized.sessions.tier == "host" else 0.0
        drafted = round(demand.serving.speculative_tokens) if demand.serving is not None else 0
        return [_serving(demand.shape, sized, context, drafted, math.ceil(kept))]
    if sized.training is not None and demand.training is not None:
        return [_training(demand, sized)]
    return []


def _serving(shape: ModelShape, sized: Sized, context: int, drafted: int, kept_gb: int) -> Launch:
    """Weights stored in 8-bit floats are quantised while they load, unless published so; other narrow formats need a
    checkpoint quantised beforehand, which the model's path must then name. So must the draft head of speculative decoding,
    where it is not a part of the checkpoint."""
    layout, slots = sized.parallel, max(sized.serving.max_concurrent // sized.replicas, 1) if sized.serving else 1
    engine = sized.engine
    fp8_cache = sized.precision.get("kv_cache") == "fp8"
    quantise = ["--quantization", "fp8"] if sized.precision.get("weights") == "fp8" and shape.native_precision != "fp8" else []
    if engine == "sglang":
        arguments = ["python", "-m", "sglang.launch_server", "--model-path", shape.id, "--tp-size", str(layout.tp * layout.dp)]
        arguments += ["--dp-size", str(layout.dp), "--enable-dp-attention"] if layout.dp > 1 else []
        arguments += ["--pp-size", str(layout.pp)] if layout.pp > 1 else []
        arguments += ["--ep-size", str(layout.ep)] if layout.ep > 1 else []
        arguments += ["--context-length", str(context)] if context else []
        arguments += ["--max-running-requests", str(slots)]
        arguments += ["--kv-cache-dtype", "fp8_e4m3"] if fp8_cache else []
        arguments += ["--enable-hierarchical-cache", "--hicache-size", str(math.ceil(kept_gb / layout.gpus))] if kept_gb else []
        arguments += ["--speculative-algorithm", "EAGLE3", "--speculative-num-steps", str(drafted)] if drafted else []
        arguments += quantise
    elif engine == "tensorrt_llm":
        arguments = ["trtllm-serve", shape.id, "--tp_size", str(layout.tp)]
        arguments += ["--pp_size", str(layout.pp)] if layout.pp > 1 else []
        arguments += ["--ep_size", str(layout.ep)] if layout.ep > 1 else []
        arguments += ["--max_seq_len", str(context)] if context else []
        arguments += ["--max_batch_size", str(slots)]
    else:
        arguments = ["vllm", "serve", shape.id, "--tensor-parallel-size", str(layout.tp)]
        arguments += ["--data-parallel-size", str(layout.dp)] if layout.dp > 1 else []
        arguments += ["--pipeline-parallel-size", str(layout.pp)] if layout.pp > 1 else []
        arguments += ["--enable-expert-parallel"] if layout.ep > 1 else []
        arguments += ["--max-model-len", str(context)] if context else []
        arguments += ["--max-num-seqs", str(math.ceil(slots / layout.dp))]  # of each data-parallel rank
        arguments += ["--kv-cache-dtype", "fp8"] if fp8_cache else []
        arguments += ["--kv-offloading-backend", "native", "--kv-offloading-size", str(math.ceil(kept_gb / GIB * GB))] if kept_gb else []
        arguments += ["--speculative-config", json.dumps({"method": "eagle3", "num_speculative_tokens": drafted})] if drafted else []
        arguments += quantise
    manifest = serving_manifest(shape.id, sized, arguments)
    return Launch(engine=engine, engine_version=sized.engine_version, arguments=arguments, manifest=manifest)


def _training(demand: Demand, sized: Sized) -> Launch:
    layout = sized.parallel
    arguments = [
        f"--tensor-model-parallel-size={layout.tp}",
        f"--pipeline-model-parallel-size={layout.pp}",
        f"--context-parallel-size={layout.cp}",
        f"--expert-model-parallel-size={layout.ep}",
        f"--micro-batch-size={sized.micro_batch}",
        f"--global-batch-size={sized.global_batch}",
        f"--seq-length={demand.training.seq_len if demand.training else 0}",
    ]
    if layout.tp > 1:
        arguments.append("--sequence-parallel")
    if sized.virtual_stages > 1:
        arguments.append(f"--num-virtual-stages-per-pipeline-rank={sized.virtual_stages}")
    arguments += SHARDING_FLAGS.get(sized.sharding, [])
    if sized.shard_groups > 1:
        arguments += [f"--num-distributed-optimizer-instances={sized.shard_groups}", "--outer-dp-sharding-strategy=no_shard"]
    if sized.recompute not in ("", "none"):
        arguments.append(f"--recompute-granularity={sized.recompute}")
    if sized.recompute == "selective":
        # Its default drops attention's scores, which fused attention never stores.
        experts = demand.shape is not None and demand.shape.is_moe
        arguments.append(f"--recompute-modules={'moe_act' if experts else 'layernorm'}")
    if sized.recompute == "full":
        # Every layer is recomputed from its own input; without a method the launcher refuses "full".
        arguments += ["--recompute-method=uniform", "--recompute-num-layers=1"]
    return Launch(engine="megatron-class", engine_version="", arguments=arguments, manifest="")
