"""What exists: GPUs, servers, links, NICs, switches, cables, models and prices, each with its source."""
