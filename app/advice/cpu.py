"""The design without GPUs: asked for every profile, chosen when the work is small or GPUs are not allowed."""

from __future__ import annotations

from dataclasses import dataclass

from app.advice import recommendation as doc
from app.advice.build import bill_document, cost_document, facility_document, storage_document
from app.advice.explain import figures_phrase
from app.catalog.loader import Catalog
from app.costing.cpu import CpuDesign, cpu_design
from app.costing.quick import QuickCost, quick_cpu_usd
from app.design.storage import StoragePlan
from app.engine.cpu_jobs import size_cpu_job
from app.engine.host import CPU_SERVER, CpuFit
from app.engine.result import Shortfall
from app.engine.serving.cpu import cpu_batch, cpu_serving
from app.ranges import Range
from app.workload.demand import Demand
from app.workload.profile import WorkloadProfile

SMALL_BUSY_FRACTION = 0.1
"""Below a tenth of one server's time a GPU would idle: the CPU design is then chosen where it is also the cheaper."""
MEMORY_STEPS_GB = (64, 128, 256, 512, 768)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuOption:
    """One CPU server that does the work, with what it costs."""

    fit: CpuFit
    cost: QuickCost
    memory_gb: float


def ask_cpu(demand: Demand, profile: WorkloadProfile) -> CpuOption | Shortfall:
    """The CPU design, or the limit that stops it."""
    found: CpuFit | Shortfall | None
    if demand.training is not None:
        found = None
    elif demand.serving is not None and demand.shape is not None:
        found = cpu_serving(demand.serving, demand.shape, demand.precision.weights)
    elif demand.batch is not None and demand.shape is not None:
        found = cpu_batch(demand.batch, demand.shape)
    else:
        found = size_cpu_job(demand)
    if found is None:
        return Shortfall(
            constraint="throughput",
            needed=None,
            available=CPU_SERVER.fp32_flops / 1e12,
            unit="TFLOPS",
            message=f"a CPU server sustains about {CPU_SERVER.fp32_flops / 1e12:.1f} TFLOPS where one GPU gives hundreds",
        )
    if isinstance(found, Shortfall):
        return found
    memory = next((step for step in MEMORY_STEPS_GB if step >= found.memory_gb), MEMORY_STEPS_GB[-1])
    cost = quick_cpu_usd(1, CPU_SERVER.cores, memory, constraints=profile.constraints)
    return CpuOption(fit=found, cost=cost, memory_gb=float(memory))


def cpu_leads(option: CpuOption | Shortfall, profile: WorkloadProfile, best_gpu_usd: float | None) -> bool:
    """Whether the CPU design is the answer: no GPUs allowed, or none serves, or the work is small, no GPU was named
    and no GPU design is cheaper."""
    if isinstance(option, Shortfall):
        return False
    constraints = profile.constraints
    if constraints.max_gpus == 0 or best_gpu_usd is None:
        return True
    if constraints.gpus or constraints.owned:
        return False
    return option.fit.busy_fraction <= SMALL_BUSY_FRACTION


def cpu_summary(option: CpuOption) -> str:
    """The verdict in one sentence."""
    return f"No GPU: one CPU server with {CPU_SERVER.cores} cores is enough; it {figures_phrase(option.fit.figures)}."


def cpu_design_document(option: CpuOption) -> doc.Design:
    """The CPU design in the document's terms: no GPUs at all."""
    return doc.Design(
        gpu=None,
        gpu_name="none",
        gpus=0,
        gpus_per_server=0,
        gpus_per_replica=0,
        servers=1,
        server=None,
        server_name=f"CPU server, {CPU_SERVER.cores} cores, {option.memory_gb:.0f} GB",
        replicas=1,
        scale_up="none",
        scale_out="none",
        nics_per_server=1,
        nic_gbit_per_s=10.0,
        parallel=doc.ParallelPlan(tp=1, pp=1, dp=1, ep=1, cp=1),
        micro_batch=1,
        global_batch=1,
        recompute="",
        sharding="",
        precision={},
        engine="",
        engine_version="",
    )


def cpu_estimate_document(option: CpuOption) -> doc.Estimate:
    """What the CPU server does."""
    return doc.Estimate(
        memory_gb={"capacity": option.memory_gb, "total": Range.exact(option.fit.memory_gb)},
        training=None,
        serving=None,
        hpc=dict(option.fit.figures),
        communication=[],
        communication_fraction=0.0,
        time_parts_s={},
        scaling=[],
        bottleneck="compute",
    )


def cpu_built(option: CpuOption, profile: WorkloadProfile, catalog: Catalog) -> CpuDesign | Shortfall:
    """Bill, room and lifetime cost of the CPU server."""
    return cpu_design(1, CPU_SERVER.cores, option.memory_gb, profile.constraints, catalog)


def cpu_parts(option: CpuOption, profile: WorkloadProfile, catalog: Catalog, storage: StoragePlan | None) -> dict[str, object]:
    """The document's parts for a CPU answer."""
    built = cpu_built(option, profile, catalog)
    known = None if isinstance(built, Shortfall) else built
    return {
        "design": cpu_design_document(option),
        "estimate": cpu_estimate_document(option),
        "bill_of_materials": [] if known is None else bill_document(known.bill),
        "network": None,
        "facility": None if known is None else facility_document(known.facility),
        "storage": None if storage is None else storage_document(storage),
        "cost": None if known is None else cost_document(known.cost),
    }
