"""The named facts rules may speak of, from one profile and one design. Unknown facts are None."""

from __future__ import annotations

from typing import Any

from app.advice.candidates import Candidate
from app.engine.result import Sized
from app.engine.training.goodput import GPU_HOURS_BETWEEN_FAILURES
from app.ranges import Range
from app.units import significant
from app.workload.demand import Demand
from app.workload.profile import WorkloadProfile

NETWORK_WISHES = {"infiniband": "InfiniBand", "ethernet": "Ethernet"}
TRAIN_BYTES_PER_PARAMETER = {"adamw": 16, "muon": 12, "adamw_8bit": 10, "adafactor": 8, "sgd": 12}
"""16-bit weights and gradients, 32-bit master copy and optimizer moments: arXiv 1910.02054, section 3.1, by optimizer."""


def facts_of(profile: WorkloadProfile, demand: Demand, candidate: Candidate, sized: Sized) -> dict[str, Any]:
    """All facts of one design."""
    return {
        **_profile_facts(profile, demand),
        **_hardware_facts(candidate, sized),
        **_memory_facts(sized),
        **_result_facts(profile, demand, sized),
    }


def _profile_facts(profile: WorkloadProfile, demand: Demand) -> dict[str, Any]:
    constraints = profile.constraints
    shape, serving, training, hpc = demand.shape, demand.serving, demand.training, demand.hpc
    people = profile.serving.people if profile.serving is not None else None
    concurrent = serving.concurrent if serving is not None else None
    return {
        "workload": profile.workload,
        "air_gapped": constraints.air_gapped,
        "availability": constraints.availability,
        "growth_percent": round(100 * constraints.growth_per_year, 1),
        "rack_power_kw": constraints.rack_power_kw,
        "existing_network": constraints.existing_network,
        "model_is_moe": shape.is_moe if shape else None,
        "model_params_b": round(shape.params_b, 2) if shape else None,
        "active_params_b": round(shape.active_params_b, 2) if shape else None,
        "native_precision": shape.native_precision if shape else None,
        "shape_inferred": shape.origin == "inferred" if shape else None,
        "stated_by": serving.stated_by if serving else None,
        "people_count": people.count.mid if people is not None else None,
        "concurrent": round(concurrent.mid, 1) if concurrent else None,
        "concurrent_words": _range_words(concurrent) if concurrent else None,
        "input_tokens": serving.input_tokens if serving else None,
        "max_context_tokens": serving.max_context_tokens if serving else None,
        "seq_len": training.seq_len if training else None,
        "optimizer": training.optimizer if training else None,
        "train_bytes_per_parameter": TRAIN_BYTES_PER_PARAMETER[training.optimizer] if training else None,
        "hpc_code": hpc.code if hpc else None,
        "mpi": hpc.mpi if hpc else None,
        "fp64": hpc.fp64 if hpc else None,
    }


def _range_words(value: Range) -> str:
    """``7``, or ``4 to 40, 12 most likely`` where the ends differ once rounded."""
    low, mid, high = (significant(part, 2) for part in (value.low, value.mid, value.high))
    return mid if low == high else f"{low} to {high}, {mid} most likely"


def _hardware_facts(candidate: Candidate, sized: Sized) -> dict[str, Any]:
    platform, gpu = sized.platform, sized.platform.gpu
    link, network = platform.scale_up, platform.scale_out if sized.span == "many_servers" else None
    server_peak_w = platform.server.max_power_w if platform.server else None
    return {
        "architecture": str(candidate.architecture),
        "span": sized.span,
        "vendor": gpu.vendor,
        "gpu_name": gpu.name,
        "generation": gpu.generation,
        "form_factor": gpu.form_factor,
        "lifecycle": gpu.lifecycle,
        "fp64_tflops": gpu.fp64_tflops,
        "gpus": sized.gpus,
        "replicas": sized.replicas,
        "servers": sized.servers,
        "gpus_per_replica": sized.parallel.gpus,
        "tp": sized.parallel.tp,
        "pp": sized.parallel.pp,
        "scale_up_is_pcie": link.kind.startswith("pcie"),
        "scale_up_bridge": link.bridge,
        "scale_up_domain": max(link.domain_gpus, platform.gpus_per_server if link.kind.startswith("pcie") else 1),
        "p2p": link.p2p,
        "network": network.kind if network else "none",
        "network_gbit_per_server": network.nic_gbit_per_s * network.nics_per_server if network else 0,
        "nics_per_gpu": round(network.nics_per_server / platform.gpus_per_server, 3) if network else None,
        "network_exists": candidate.network_exists,
        "server_peak_kw": round(server_peak_w / 1000, 2) if server_peak_w is not None else None,
    }


def _memory_facts(sized: Sized) -> dict[str, Any]:
    used = sum(part.mid for part in sized.memory_gb.values())
    cache = sized.memory_gb.get("kv_cache")
    return {
        "memory_used_percent": round(100 * used / sized.capacity_gb, 1) if sized.capacity_gb else None,
        "kv_percent": round(100 * cache.mid / used, 1) if cache is not None and used else None,
        "precision_weights": sized.precision.get("weights"),
    }


def _result_facts(profile: WorkloadProfile, demand: Demand, sized: Sized) -> dict[str, Any]:
    deadline = None
    if demand.training is not None:
        deadline = demand.training.deadline_days
    return {
        "communication_percent": round(100 * sized.communication_fraction, 1),
        "utilisation_percent": round(100 * sized.serving.utilisation, 1) if sized.serving else None,
        "goodput_percent": round(100 * sized.training.goodput_fraction, 1) if sized.training else None,
        "hours_between_failures": round(GPU_HOURS_BETWEEN_FAILURES / max(sized.gpus, 1), 1),
        "bounds_by_memory": sized.bounds_gpus_by_memory,
        "deadline_binds": deadline is not None and sized.gpus > 2 * sized.bounds_gpus_by_memory,
        "horizon_years": profile.constraints.horizon_years,
        "horizon_days": round(365 * float(profile.constraints.horizon_years)),
        "run_days": round(sized.training.days.mid) if sized.training and sized.training.days else None,
        "deadline_stated": deadline is not None,
        "network_asked_for": NETWORK_WISHES.get(profile.constraints.network_preference, ""),
    }
