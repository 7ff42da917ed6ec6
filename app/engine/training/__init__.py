"""Training: step time, memory, goodput and the search over parallel layouts."""
