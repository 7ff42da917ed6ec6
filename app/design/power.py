"""Electrical power of servers and of whole installations: nameplate, typical at load, idle."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from app.catalog.schema import Gpu, Server

MODULE_HOST_W_PER_GPU = (10_200 - 8 * 700) / 8
"""Nameplate of a DGX H100 (10.2 kW) less its eight 700 W GPUs, per GPU: CPUs, switches, NICs, fans, margin. 575 W."""
CARD_HOST_W = 300.0
"""Memory, SSD and board of a PCIe server (Serve-The-Home power rule: 250-300 W)."""
CARD_CPU_W_PER_GPU = 90.0
"""Two 360 W class CPUs over eight cards; 350 W at least."""
CARD_NIC_W_PER_GPU = 25.0
FAN_FACTOR = 1.15
"""Fans add 10-20% in an air-cooled chassis (same rule)."""
WORKSTATION_HOST_W = 350.0
"""CPU 150-250 W and board, memory, SSD of a desk-side machine."""

TYPICAL_OVER_PEAK = 0.80
"""Typical over nameplate power at full load: 8.5 / 10.2 kW for a DGX H100, 14 / 15 for a DGX B300, 0.70-0.72 for an
eight-H100 immersion node without fans (MLPerf Training v4.0 power logs). Middle of 0.70-0.93."""
IDLE_OVER_PEAK = 0.28
"""2.1 of 7.36 kW: the same node in its start-up phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPower:
    """Watts of one server: ``peak_w`` sizes breakers and cooling, ``typical_w`` the energy bill at full load."""

    peak_w: float
    typical_w: float
    idle_w: float
    source: str

    def average_w(self, utilisation: float) -> float:
        """Mean power at a share of full load: idle + (typical - idle) x utilisation."""
        share = min(max(utilisation, 0.0), 1.0)
        return self.idle_w + (self.typical_w - self.idle_w) * share


def server_power(server: Server | None, gpu: Gpu, gpus_in_server: int) -> ServerPower:
    """Power of one server holding ``gpus_in_server`` of ``gpu``.

    From the server's row where it states power (a partly filled card server draws less by the missing cards'
    board power); else by rule from GPU board power.
    """
    if server is None:
        return _by_rule("rack_server", gpu.form_factor, gpu.tdp_w, gpus_in_server)
    return _of_row(server.max_power_w, server.typical_power_w, server.gpus, server.form, gpu.form_factor, gpu.tdp_w, gpus_in_server)


@lru_cache(maxsize=2048)
def _of_row(
    max_w: float | None, typical_w: float | None, row_gpus: int, form: str, form_factor: str, tdp_w: float | None, count: int
) -> ServerPower:
    rule = _by_rule(form, form_factor, tdp_w, row_gpus)
    if max_w is None and typical_w is None:
        return _by_rule(form, form_factor, tdp_w, count)
    peak = max_w if max_w is not None else max(rule.peak_w, typical_w or 0.0)
    typical = typical_w if typical_w is not None else peak * TYPICAL_OVER_PEAK
    absent = max(row_gpus - count, 0) * (tdp_w or 0.0) if form_factor not in ("sxm", "oam", "superchip") else 0.0
    peak = max(peak - absent, 0.2 * peak)
    typical = max(min(typical - absent * TYPICAL_OVER_PEAK, peak), 0.2 * typical)
    source = "server row" if max_w is not None else "typical power from the server row, nameplate by rule"
    return ServerPower(peak_w=peak, typical_w=typical, idle_w=min(peak * IDLE_OVER_PEAK, typical), source=source)


@lru_cache(maxsize=2048)
def _by_rule(form: str, form_factor: str, tdp_w: float | None, count: int) -> ServerPower:
    """Nameplate by rule; a GPU without a stated board power counts 350 W (the data-centre card class)."""
    gpus_w = (tdp_w or 350.0) * count
    if form_factor in ("sxm", "oam", "superchip"):
        peak = gpus_w + MODULE_HOST_W_PER_GPU * count
        source = "rule: GPU board power + 575 W of host per GPU (DGX H100 nameplate)"
    elif form in ("tower", "desktop"):
        peak = (gpus_w + WORKSTATION_HOST_W) * FAN_FACTOR
        source = "rule: (GPU board power + 350 W) x 1.15"
    else:
        host = max(350.0, CARD_CPU_W_PER_GPU * count) + CARD_HOST_W + CARD_NIC_W_PER_GPU * count
        peak = (gpus_w + host) * FAN_FACTOR
        source = "rule: (GPU board power + CPUs + 300 W + NICs) x 1.15"
    return ServerPower(peak_w=peak, typical_w=peak * TYPICAL_OVER_PEAK, idle_w=peak * IDLE_OVER_PEAK, source=source)


def cpu_server_power(cores: int) -> ServerPower:
    """A server without GPUs: 4 W per core (350-400 W for a 96-core CPU) + 300 W, fans included."""
    peak = (4.0 * cores + CARD_HOST_W) * FAN_FACTOR
    return ServerPower(
        peak_w=peak, typical_w=peak * TYPICAL_OVER_PEAK, idle_w=peak * IDLE_OVER_PEAK, source="rule: (4 W per core + 300 W) x 1.15"
    )
