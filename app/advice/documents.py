"""Turn engine, design and costing values into the parts of the Recommendation document."""

from __future__ import annotations

from app.advice import recommendation as doc
from app.engine.result import Sized
from app.ranges import Range
from app.units import GB

SCALE_UP_NAMES = {"none": "none needed"}


def design_document(sized: Sized) -> doc.Design:
    """The design as the customer reads it: counts, links and layout."""
    platform = sized.platform
    network = platform.scale_out if sized.parallel.gpus > platform.gpus_per_server else None
    return doc.Design(
        gpu=platform.gpu.id,
        gpu_name=platform.gpu.name,
        gpus=sized.gpus,
        gpus_per_server=platform.gpus_per_server,
        gpus_per_replica=sized.parallel.gpus,
        servers=sized.servers,
        server=platform.server.id if platform.server else None,
        server_name=platform.server.name if platform.server else "existing server",
        replicas=sized.replicas,
        scale_up=platform.scale_up.kind,
        scale_out=network.kind if network else ("ethernet" if sized.servers > 1 else "none"),
        nics_per_server=network.nics_per_server if network else 1,
        nic_gbit_per_s=network.nic_gbit_per_s if network else 25.0,
        parallel=doc.ParallelPlan(
            tp=sized.parallel.tp, pp=sized.parallel.pp, dp=sized.parallel.dp, ep=sized.parallel.ep, cp=sized.parallel.cp
        ),
        micro_batch=sized.micro_batch,
        global_batch=sized.global_batch,
        recompute=sized.recompute,
        sharding=sized.sharding,
        precision=dict(sized.precision),
        engine=sized.engine,
        engine_version=sized.engine_version,
        scale_up_gb_per_s=platform.scale_up.bandwidth_bytes_per_s / GB if platform.scale_up.kind != "none" else None,
        scale_up_domain_gpus=platform.scale_up.domain_gpus,
    )


def memory_document(sized: Sized) -> dict[str, Range | float]:
    """Memory per GPU by component, their sum and what the GPU has for them, GB."""
    parts: dict[str, Range | float] = dict(sized.memory_gb)
    total = Range.exact(0.0)
    for value in sized.memory_gb.values():
        total = total.plus(value)
    parts["total"] = total
    parts["capacity"] = sized.capacity_gb
    return parts


def estimate_document(sized: Sized) -> doc.Estimate:
    """What the design does, every figure of the engine's answer."""
    training = sized.training
    serving = sized.serving
    return doc.Estimate(
        memory_gb=memory_document(sized),
        training=None
        if training is None
        else doc.TrainingEstimate(
            step_s=training.step_s,
            tokens_per_s=training.tokens_per_s,
            mfu=training.mfu,
            days=training.days,
            goodput_fraction=training.goodput_fraction,
            samples_per_s=training.samples_per_s,
        ),
        serving=None
        if serving is None
        else doc.ServingEstimate(
            percentile=serving.percentile,
            ttft_ms=serving.ttft_ms,
            tpot_ms=serving.tpot_ms,
            output_tokens_per_s=serving.output_tokens_per_s,
            input_tokens_per_s=serving.input_tokens_per_s,
            requests_per_s=serving.requests_per_s,
            max_concurrent=serving.max_concurrent,
            concurrent_per_replica=serving.concurrent_per_replica,
            kv_cache_tokens=serving.kv_cache_tokens,
            utilisation=serving.utilisation,
            hours=serving.hours,
        ),
        hpc=dict(sized.job.figures) if sized.job is not None else None,
        communication=[
            doc.Communication(
                collective=term.collective,
                purpose=term.purpose,
                level=term.level,
                bytes=term.bytes,
                time_s=term.time_s,
                exposed_s=term.exposed_s,
            )
            for term in sized.communication
        ],
        communication_fraction=sized.communication_fraction,
        time_parts_s=dict(sized.time_parts_s),
        scaling=[doc.Scaling(gpus=point.gpus, throughput=point.throughput, efficiency=point.efficiency) for point in sized.scaling],
        bottleneck=sized.bottleneck,
    )


def bounds_document(sized: Sized) -> doc.Bounds:
    """The plain bounds beside the answer, with the reason where the answer is more than 3x the larger one."""
    by_memory, by_roofline = sized.bounds_gpus_by_memory, sized.bounds_gpus_by_roofline
    floor = max(by_memory, by_roofline, 1)
    reason = ""
    if sized.gpus > 3 * floor:
        reason = (
            f"{sized.gpus} GPUs is more than three times the larger plain bound of {floor}: the bound assumes 100% of peak; "
            f"the limit that costs the rest is {sized.bottleneck.replace('_', ' ')}"
        )
    return doc.Bounds(gpus_by_memory=by_memory, gpus_by_roofline=by_roofline, gpus=sized.gpus, reason=reason)
