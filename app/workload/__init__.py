"""What is needed: the workload profile, presets, model import and the demand derived from them."""
