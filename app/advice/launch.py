"""Launch settings of the design, to copy: engine arguments for serving, layout flags for training."""

from __future__ import annotations

from app.advice.recommendation import Launch
from app.engine.result import Sized
from app.workload.demand import Demand


def launch_settings(demand: Demand, sized: Sized) -> list[Launch]:
    """Settings for the engine of the design; empty for work that has no such engine."""
    if sized.serving is not None and sized.engine and demand.shape is not None:
        context = int(demand.serving.max_context_tokens) if demand.serving is not None else 0
        return [_serving(demand.shape.id, sized, context)]
    if sized.training is not None and demand.training is not None:
        return [_training(demand, sized)]
    return []


def _serving(model: str, sized: Sized, context: int) -> Launch:
    layout, slots = sized.parallel, max(round(sized.serving.concurrent_per_replica), 1) if sized.serving else 1
    engine = sized.engine
    if engine == "sglang":
        arguments = ["python", "-m", "sglang.launch_server", "--model-path", model, "--tp-size", str(layout.tp)]
        arguments += ["--pp-size", str(layout.pp)] if layout.pp > 1 else []
        arguments += ["--context-length", str(context)] if context else []
        arguments += ["--max-running-requests", str(slots)]
    elif engine == "tensorrt_llm":
        arguments = ["trtllm-serve", model, "--tp_size", str(layout.tp)]
        arguments += ["--pp_size", str(layout.pp)] if layout.pp > 1 else []
        arguments += ["--max_seq_len", str(context)] if context else []
        arguments += ["--max_batch_size", str(slots)]
    else:
        arguments = ["vllm", "serve", model, "--tensor-parallel-size", str(layout.tp)]
        arguments += ["--pipeline-parallel-size", str(layout.pp)] if layout.pp > 1 else []
        arguments += ["--max-model-len", str(context)] if context else []
        arguments += ["--max-num-seqs", str(slots)]
        arguments += ["--kv-cache-dtype", "fp8"] if sized.precision.get("kv_cache") == "fp8" else []
        arguments += ["--enable-expert-parallel"] if layout.ep > 1 else []
    return Launch(engine=engine, engine_version=sized.engine_version, arguments=arguments, manifest="")


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
    if sized.sharding.startswith("zero"):
        arguments.append("--use-distributed-optimizer" if sized.sharding == "zero1" else f"# sharding: {sized.sharding} (FSDP)")
    if sized.recompute not in ("", "none"):
        arguments.append(f"--recompute-granularity={sized.recompute}")
    return Launch(engine="megatron-class", engine_version="", arguments=arguments, manifest="")
