"""What to build: node and fabric topology, bill of materials, storage and facility."""
