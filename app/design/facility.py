"""Power, cooling, racks, heat, energy and carbon of an installation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from app.catalog.schema import Server
from app.design.power import ServerPower, cpu_server_power, server_power
from app.engine.result import Shortfall, Sized
from app.units import BTU_PER_H_PER_KW, HOURS_PER_YEAR

CoolingClass = Literal["office", "air", "rear_door", "liquid", "immersion"]

RACK_UNITS = 42
RACK_UNITS_RESERVED = 4
"""Left free for the top-of-rack and management switches, patch panels and cable paths."""

SWITCH_UNITS = 2
SWITCHES_PER_RACK = 2
"""Switches that fit in the reserved units of a server rack; more take racks of their own."""

COOLING_LIMIT_KW: dict[CoolingClass, float] = {"office": 3.0, "air": 30.0, "rear_door": 60.0, "liquid": 140.0, "immersion": 100.0}
"""Rack power a method takes: 30 kW air with containment, 60 kW active rear door (warn to 75), 140 kW direct liquid;
middle of published bands. Office: two 1,440 W circuits (15 A at 120 V, 80% continuous)."""

PUE_BY_COOLING: dict[CoolingClass, float] = {"office": 1.3, "air": 1.4, "rear_door": 1.3, "liquid": 1.2, "immersion": 1.15}
"""Planning values: 1.4 on premises (band 1.2-1.6; survey average 1.56), 1.2 with direct liquid. Office: heat goes to the
building's own cooling; assumption."""

GCO2_PER_KWH: dict[str, float] = {
    "us": 369, "de": 381, "fr": 56, "gb": 238, "uk": 238, "ie": 291, "nl": 268, "se": 41, "no": 30, "es": 174, "it": 331,
    "pl": 662, "fi": 79, "is": 28, "ch": 35, "dk": 152, "ca": 170, "br": 98, "in": 713, "cn": 582, "jp": 485, "kr": 431,
    "sg": 471, "au": 549, "za": 708, "ae": 561, "sa": 707,
}  # fmt: skip
"""Grid average of 2023 (Iceland and the Emirates 2022), gCO2e/kWh, Our World in Data energy mix as packaged by codecarbon."""

COUNTRY_NAMES = {
    "usa": "us", "united states": "us", "deu": "de", "germany": "de", "fra": "fr", "france": "fr", "gbr": "gb",
    "united kingdom": "gb", "england": "gb", "irl": "ie", "ireland": "ie", "nld": "nl", "netherlands": "nl", "swe": "se",
    "sweden": "se", "nor": "no", "norway": "no", "esp": "es", "spain": "es", "ita": "it", "italy": "it", "pol": "pl",
    "poland": "pl", "fin": "fi", "finland": "fi", "isl": "is", "iceland": "is", "che": "ch", "switzerland": "ch", "dnk": "dk",
    "denmark": "dk", "can": "ca", "canada": "ca", "bra": "br", "brazil": "br", "ind": "in", "india": "in", "chn": "cn",
    "china": "cn", "jpn": "jp", "japan": "jp", "kor": "kr", "south korea": "kr", "sgp": "sg", "singapore": "sg", "aus": "au",
    "australia": "au", "zaf": "za", "south africa": "za", "are": "ae", "sau": "sa", "saudi arabia": "sa",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FacilityPlan:
    """What the room must give. it_kw: average of the year at the stated load; peak_kw: nameplate, for breakers and cooling."""

    it_kw: float
    peak_kw: float
    racks: int
    cooling: str
    heat_btu_per_h: float
    energy_kwh_per_year: float
    co2_t_per_year: float | None
    pue: float
    notes: tuple[str, ...]
    servers_per_rack: int = 0
    rack_limit_kw: float = 0.0
    fullest_rack_kw: float = 0.0
    cooling_class: CoolingClass = "air"


def country_of(region: str | None) -> str | None:
    """Two-letter country of a region such as ``DE``, ``germany``, ``US-TX`` or ``eu-de``; None when not recognised."""
    if not region:
        return None
    text = region.strip().lower()
    if text in COUNTRY_NAMES:
        return COUNTRY_NAMES[text]
    for piece in (text, text.split("-")[0], text.split("-")[-1]):
        if piece in GCO2_PER_KWH:
            return "gb" if piece == "uk" else piece
    return None


def cooling_class(server: Server | None, server_kw: float, asked: str, rack_limit_kw: float | None) -> CoolingClass:
    """How the racks are cooled: what the server needs, what was asked, else the gentlest method that takes one server."""
    if server is not None and server.form in ("tower", "desktop"):
        return "office"
    if server is not None and server.cooling == "immersion":
        return "immersion"
    if (server is not None and server.cooling in ("liquid", "hybrid")) or asked == "liquid":
        return "liquid"
    density = max(server_kw, rack_limit_kw or 0.0)
    if density <= COOLING_LIMIT_KW["air"] or asked == "air":
        return "air"
    return "rear_door" if server_kw <= COOLING_LIMIT_KW["rear_door"] else "liquid"


def servers_per_rack(server: Server | None, server_kw: float, limit_kw: float) -> int:
    """Servers in one rack by power and by height; 0 when one alone exceeds the power limit."""
    by_power = math.floor(limit_kw / server_kw + 1e-9)
    height_u = (server.rack_units if server else None) or default_rack_units(server)
    by_height = max(1, math.floor((RACK_UNITS - RACK_UNITS_RESERVED) / height_u))
    return min(by_power, by_height)


def default_rack_units(server: Server | None) -> float:
    """Height of a server whose row has none: 8U for eight modules, 4U for eight cards, 2U below."""
    if server is None:
        return 4.0
    if server.scale_up in ("nvswitch", "infinity_fabric", "gaudi_ethernet"):
        return 8.0
    return 4.0 if server.gpus > 4 else 2.0


def facility_plan(
    sized: Sized,
    *,
    switches: int = 0,
    switch_w: float = 0.0,
    spare_servers: int = 0,
    storage_kw: float = 0.0,
    rack_power_kw: float | None = None,
    cooling: str = "any",
    region: str | None = None,
    utilisation: float | None = None,
) -> FacilityPlan | Shortfall:
    """Racks, power and heat of a design; a :class:`Shortfall` when one server alone breaks the rack limit.

    switch_w: nameplate of all fabric switches together; utilisation: share of full load over the year (None:
    the serving estimate's own figure, 1 for work that keeps the machine busy).
    """
    platform = sized.platform
    server, gpu = platform.server, platform.gpu
    in_use = max(1, min(platform.gpus_per_server, math.ceil(sized.gpus / max(sized.servers, 1))))
    power = server_power(server, gpu, in_use)
    return plan_racks(
        name=server.name if server else f"server with {in_use} x {gpu.name}",
        server=server,
        power=power,
        servers=sized.servers + spare_servers,
        idle_servers=spare_servers,
        switches=switches,
        other_peak_kw=switch_w / 1000 + storage_kw,
        rack_power_kw=rack_power_kw,
        cooling=cooling,
        region=region,
        utilisation=load_of(sized) if utilisation is None else utilisation,
    )


def cpu_facility_plan(
    servers: int, cores_per_server: int, *, rack_power_kw: float | None = None, region: str | None = None
) -> FacilityPlan | Shortfall:
    """The same for servers without GPUs."""
    return plan_racks(
        name=f"CPU server with {cores_per_server} cores",
        server=None,
        power=cpu_server_power(cores_per_server),
        servers=servers,
        idle_servers=0,
        switches=0,
        other_peak_kw=0.0,
        rack_power_kw=rack_power_kw,
        cooling="any",
        region=region,
        utilisation=1.0,
    )


def load_of(sized: Sized) -> float:
    """Share of full load over the year: the serving estimate's utilisation, 1 for batch work and training."""
    if sized.serving is not None and sized.serving.hours is None and sized.serving.utilisation > 0:
        return min(sized.serving.utilisation, 1.0)
    return 1.0


def plan_racks(
    *,
    name: str,
    server: Server | None,
    power: ServerPower,
    servers: int,
    idle_servers: int,
    switches: int,
    other_peak_kw: float,
    rack_power_kw: float | None,
    cooling: str,
    region: str | None,
    utilisation: float,
) -> FacilityPlan | Shortfall:
    """Fill racks to the power limit and the height, and add up what they draw."""
    server_kw = power.peak_w / 1000
    kind = cooling_class(server, server_kw, cooling, rack_power_kw)
    limit = _rack_limit(server, server_kw, kind, rack_power_kw)
    desk = kind == "office"
    whole_rack = server is not None and server.form == "rack_scale"
    per_rack = 1 if whole_rack or desk else servers_per_rack(server, server_kw, limit)
    if not desk and server_kw > limit * (1 + 1e-9):
        why = "the rack limit" if rack_power_kw is not None and rack_power_kw <= limit else f"{kind.replace('_', ' ')} cooling of a rack"
        return Shortfall(
            constraint="rack_power",
            needed=round(server_kw, 2),
            available=limit,
            unit="kW",
            message=f"one {name} draws up to {server_kw:.1f} kW; {why} is {limit:g} kW",
        )
    server_racks = 0 if desk else math.ceil(servers / per_rack)
    free_kw = server_racks * limit - servers * server_kw
    by_power = 0 if other_peak_kw <= free_kw else math.ceil(other_peak_kw / limit)
    by_height = math.ceil(max(switches - SWITCHES_PER_RACK * server_racks, 0) * SWITCH_UNITS / (RACK_UNITS - RACK_UNITS_RESERVED))
    other_racks = 0 if desk else max(by_power, by_height)
    peak = servers * server_kw + other_peak_kw
    busy = servers - idle_servers
    average = (busy * power.average_w(utilisation) + idle_servers * power.idle_w) / 1000 + other_peak_kw * OTHER_TYPICAL
    pue = PUE_BY_COOLING[kind]
    energy = average * pue * HOURS_PER_YEAR
    country = country_of(region)
    carbon = energy * GCO2_PER_KWH[country] / 1e6 if country in GCO2_PER_KWH else None
    return FacilityPlan(
        it_kw=average,
        peak_kw=peak,
        racks=server_racks + other_racks,
        cooling=COOLING_WORDS[kind],
        heat_btu_per_h=peak * BTU_PER_H_PER_KW,
        energy_kwh_per_year=energy,
        co2_t_per_year=carbon,
        pue=pue,
        notes=_notes(power, kind, server, server_kw, rack_power_kw, limit, per_rack, country),
        servers_per_rack=0 if desk else min(per_rack, servers),
        rack_limit_kw=limit,
        fullest_rack_kw=0.0 if desk else min(per_rack, servers) * server_kw,
        cooling_class=kind,
    )


OTHER_TYPICAL = 0.7
"""Switches and storage: typical over nameplate (QM9700 with active cables about 1.2 of 1.7 kW)."""

COOLING_WORDS: dict[CoolingClass, str] = {
    "office": "office air",
    "air": "air, contained aisles",
    "rear_door": "air with rear-door heat exchanger",
    "liquid": "direct liquid with air for the rest",
    "immersion": "immersion",
}


def _rack_limit(server: Server | None, server_kw: float, kind: CoolingClass, stated_kw: float | None) -> float:
    """Power a rack may take: what its cooling takes (a rack-scale machine brings its own), and never more than stated."""
    cooled = COOLING_LIMIT_KW[kind]
    if server is not None and server.form == "rack_scale":
        cooled = max(cooled, server_kw)
    return cooled if stated_kw is None else min(stated_kw, cooled)


def _notes(
    power: ServerPower,
    kind: CoolingClass,
    server: Server | None,
    server_kw: float,
    stated_kw: float | None,
    limit: float,
    per_rack: int,
    country: str | None,
) -> tuple[str, ...]:
    notes = [f"Power of a server: {power.peak_w / 1000:.1f} kW nameplate, {power.typical_w / 1000:.1f} kW typical ({power.source})"]
    if kind == "office":
        if power.peak_w > 1440:
            notes.append("Draws more than 1,440 W: needs a 208-240 V circuit or two 120 V circuits")
    else:
        basis = "stated" if stated_kw is not None else f"assumed from {kind.replace('_', ' ')} cooling"
        notes.append(f"Rack limit {limit:g} kW ({basis}); {per_rack} server(s) a rack at {per_rack * server_kw:.1f} kW")
        feed_a = limit * 1000 / (math.sqrt(3) * 400) / 0.8
        notes.append(f"Breakers: {feed_a:.0f} A a phase at 400 V three-phase with 80% continuous load, two feeds")
    if kind in ("liquid", "immersion"):
        flow_l_per_min = min(per_rack * server_kw, limit) * 0.8 / (0.0697 * 10)
        notes.append(f"Coolant: about {flow_l_per_min:.0f} l/min of water a rack at a 10 K rise for 80% of the heat; the rest goes to air")
    elif kind != "office":
        flow_cfm = per_rack * server_kw * BTU_PER_H_PER_KW / (1.08 * 27)
        notes.append(f"Air: about {flow_cfm:,.0f} cubic feet a minute a rack at a 15 K rise")
    if server is not None and server.weight_kg is not None and kind != "office":
        notes.append(f"Floor load: {per_rack * server.weight_kg:,.0f} kg of servers a rack")
    if country is None:
        notes.append("Carbon not known: the region is not stated or has no grid figure here")
    return tuple(notes)
