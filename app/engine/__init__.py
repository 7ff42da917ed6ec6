"""What a design does: memory, compute, collectives, training, serving, HPC and search. Pure and array-friendly."""
