"""Launch settings: an argument reader of the engine's own shape reads back the design they were written from."""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import yaml

from app.advice.advisor import recommend
from app.advice.launch import launch_settings
from app.catalog.loader import load_catalog
from app.engine.links import recommended_network
from app.engine.platform import platform_of
from app.engine.result import Sized
from app.engine.training.sizing import size_training
from app.workload.profile import parse_profile
from app.workload.resolve import demand_of

FLAGS = {
    "vllm": ("--tensor-parallel-size", "--pipeline-parallel-size", "--max-model-len", "--kv-cache-dtype"),
    "sglang": ("--tp-size", "--pp-size", "--context-length", "--kv-cache-dtype"),
    "tensorrt_llm": ("--tp_size", "--pp_size", "--max_seq_len", None),
}
"""Names in the engines' public argument references."""


def _answer(engine: str, model: str, gpu: str, precision: dict[str, str] | None = None, **serving: float):
    load = {"concurrent_users": 60, "input_tokens": 1000, "output_tokens": 300, "max_context_tokens": 8192, "engine": engine}
    profile = parse_profile(
        {
            "name": "chat",
            "workload": "online_inference",
            "model": {"id": model},
            "precision": precision or {},
            "serving": load | serving,
            "constraints": {"gpus": [gpu]},
        }
    )
    return recommend(profile, load_catalog(), created_at=datetime(2026, 1, 1, tzinfo=UTC), recommendation_id="r")


def _read(engine: str, arguments: list[str]) -> argparse.Namespace:
    tp, pp, context, cache = FLAGS[engine]
    reader = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    reader.add_argument(tp, type=int, dest="tp", default=1)
    reader.add_argument(pp, type=int, dest="pp", default=1)
    reader.add_argument(context, type=int, dest="context")
    if cache:
        reader.add_argument(cache, dest="cache", default="auto")
    read, _ = reader.parse_known_args(arguments)
    return read


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_data_parallel_attention_reads_back_too(engine):
    """Eight groups of one GPU: vLLM counts the ranks of one group and the groups, SGLang all ranks and the groups."""
    load = {"concurrent_users": 1200, "input_tokens": 4000, "output_tokens": 500, "tpot_ms": 100, "ttft_ms": 5000}
    answer = _answer(engine, "deepseek-ai/DeepSeek-V3", "h200-sxm-141gb", **load)
    (launch,) = answer.launch
    layout = answer.design.parallel
    assert (layout.tp, layout.dp, layout.ep) == (1, 8, 8)
    reader = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    ranks, groups = ("--tensor-parallel-size", "--data-parallel-size") if engine == "vllm" else ("--tp-size", "--dp-size")
    reader.add_argument(ranks, type=int, dest="ranks")
    reader.add_argument(groups, type=int, dest="groups")
    read, _ = reader.parse_known_args(launch.arguments)
    assert (read.ranks if engine == "sglang" else read.ranks * read.groups) == layout.tp * layout.dp
    assert read.groups == layout.dp


@pytest.mark.parametrize("engine", FLAGS)
@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"])
def test_the_arguments_read_back_give_the_design(engine, model):
    answer = _answer(engine, model, "h100-sxm-80gb", {"kv_cache": "bf16"})
    (launch,) = answer.launch
    read = _read(engine, launch.arguments)
    assert launch.engine == engine
    assert (read.tp, read.pp) == (answer.design.parallel.tp, answer.design.parallel.pp)
    assert read.context == 8192
    assert model in launch.arguments


def test_the_manifest_asks_for_the_gpus_of_the_design():
    answer = _answer("vllm", "meta-llama/Llama-3.1-70B-Instruct", "h100-sxm-80gb")
    (launch,) = answer.launch
    deployment, service = yaml.safe_load_all(launch.manifest)
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    per_replica = container["resources"]["limits"]["nvidia.com/gpu"]
    assert per_replica * deployment["spec"]["replicas"] == answer.design.gpus
    command = container["command"]
    assert command[: len(launch.arguments)] == launch.arguments
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["ports"][0]["port"] == int(command[command.index("--port") + 1])


def test_eight_bit_weights_and_cache_are_asked_for():
    """Published in 16 bits, the weights must be quantised on loading, or they take twice the memory the design gives them."""
    arguments = (
        _answer("vllm", "meta-llama/Llama-3.1-70B-Instruct", "h100-sxm-80gb", {"weights": "fp8", "kv_cache": "fp8"}).launch[0].arguments
    )
    assert arguments[arguments.index("--quantization") + 1] == "fp8"
    assert arguments[arguments.index("--kv-cache-dtype") + 1] == "fp8"


def test_a_model_published_in_eight_bits_is_loaded_as_it_is():
    """DeepSeek-V3's checkpoint is FP8 already (its model card); experts are spread over the ranks of a stage."""
    arguments = _answer("vllm", "deepseek-ai/DeepSeek-V3", "h200-sxm-141gb").launch[0].arguments
    assert "--quantization" not in arguments
    assert "--enable-expert-parallel" in arguments


def test_a_training_design_gives_flags_only():
    """What a launcher cannot read, such as a remark, never stands among the arguments."""
    profile = parse_profile({"workload": "finetuning", "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"}, "training": {"tokens_b": 1.0}})
    answer = recommend(profile, load_catalog(), created_at=datetime(2026, 1, 1, tzinfo=UTC), recommendation_id="r")
    arguments = answer.launch[0].arguments
    assert all(item.startswith("--") for item in arguments)
    assert f"--tensor-model-parallel-size={answer.design.parallel.tp}" in arguments
    assert ("--recompute-method=uniform" in arguments) == (answer.design.recompute == "full")
    assert any("sharding-strategy=optim_grads_params" in item for item in arguments) == (answer.design.sharding == "zero3")


def test_interleaving_hybrid_sharding_and_selective_recomputation_are_asked_for():
    """Megatron's names: stages per rank, copies of the optimizer, and what is recomputed beside fused attention."""
    profile = parse_profile({"workload": "finetuning", "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"}, "training": {"tokens_b": 1.0}})
    catalog = load_catalog()
    demand = demand_of(profile, catalog)
    gpu = catalog.gpus["h100-sxm-80gb"]
    platform = platform_of(gpu, gpus_per_server=8).with_network(recommended_network(gpu, "infiniband"))
    sized = size_training(demand.training, demand.shape, platform, "many_servers", "auto", 64)
    assert isinstance(sized, Sized)
    changed = replace(sized, virtual_stages=4, shard_groups=2, sharding="zero3", recompute="selective")
    (launch,) = launch_settings(demand, changed)
    assert "--num-virtual-stages-per-pipeline-rank=4" in launch.arguments
    assert "--num-distributed-optimizer-instances=2" in launch.arguments
    assert "--recompute-modules=layernorm" in launch.arguments
    (plain,) = launch_settings(demand, replace(sized, virtual_stages=1, shard_groups=1, recompute="none"))
    assert not any("virtual" in item or "instances" in item or "recompute" in item for item in plain.arguments)
