"""The one file of cost assumptions: every rate, life, share and default, each with its source.

Hours of a year live in :mod:`app.units` (8,760). A month is a twelfth of a year. Rows of published figures
named here are in the catalogue's price and running-cost tables; figures without a publication are marked
"assumption" with the reason.
"""

from __future__ import annotations

from app.units import HOURS_PER_YEAR

MONTHS_PER_YEAR = 12
HOURS_PER_MONTH = HOURS_PER_YEAR / MONTHS_PER_YEAR
"""730 h."""

DEFAULT_HORIZON_YEARS = 3.0

COST_OF_CAPITAL = (0.06, 0.09, 0.12)
"""Per year, low/typical/high: planning band over the effective rates of CoreWeave's 10-Q of 2025-06-30 and press 2026."""

RESIDUAL_AFTER_36_MONTHS = (0.35, 0.30, 0.25)
"""Share of the purchase price a GPU server still brings after 36 months, in the order of low/typical/high *cost*
(market guides 2026: 25-35%)."""

ELECTRICITY_USD_PER_KWH = (0.06, 0.083, 0.12)
"""US industrial tariff 2026, planning band over EIA readings; used when neither the customer nor the region gives one."""

EUR_USD = 1.15
"""USD per EUR for prices published in EUR. Assumption (order of the 2026 rate); settable by the user."""
FRENCH_VAT = 0.20
"""Contained in the LDLC.com shelf prices."""

COLOCATION_USD_PER_KW_MONTH = (120.0, 150.0, 195.0)
"""Space, power path and cooling per kW of committed IT load, energy excluded: US wholesale asking rents, from
secondary markets (115-135) over Tier-1 (140-160, Jan 2026) to the CBRE primary-market average (194.95, H2 2025)."""
OWN_ROOM_USD_PER_KW_MONTH = (60.0, 95.0, 130.0)
"""The same in a room one owns: 10,000-13,000 USD per kW of shell and plant (analyst note 2025) over 15 years at
the cost of capital: 11,500 x 0.0992 / 12 = 95 at 6%."""

SUPPORT_FRACTION_PER_YEAR = (0.012, 0.05, 0.10)
"""Vendor support and maintenance, share of hardware purchase a year: 1.2-2% in small-site buyer models (2026-03),
10-20% of list in vendor contracts; 5% as in the published 8x A100 worked example."""

STAFF_USD_PER_YEAR = 185_000 * 1.3
"""One operations engineer: 185,000 USD salary (US salary guide 2026) x 1.3 employment overhead (1.25-1.4, Epoch AI)."""
STAFF_FTE_PER_NODE = 0.25
"""One 8-GPU node on its own (buy-or-rent model, 2026-03)."""
NODES_PER_FTE_AT_SCALE = 75.0
"""50-100 eight-GPU servers per engineer at scale (2026 guide)."""
NODE_KW = 10.2
"""Nameplate of that node (DGX H100). Smaller and larger machines count as nodes by their nameplate, so that a
workstation of 1 kW takes an hour a week and a 132 kW rack counts as thirteen nodes. Assumption: attention follows size."""

GPU_FAILURES_PER_YEAR = (0.025, 0.04, 0.06)
"""Permanent failures, share of GPUs a year (2.5-6%, research note 2026). Repair cost beyond warranty is this share
of the GPU hardware's price times UNCOVERED_FAILURE_FRACTION."""
UNCOVERED_FAILURE_FRACTION = 0.25
"""Share of failures no warranty covers: shipping, labour, consumables, damage. Assumption: most failures of a
server under support are replaced by the vendor."""

CLOUD_INTERCONNECT_MIN_GBIT = 400.0
"""Least network of an instance that counts as made for jobs across instances."""
