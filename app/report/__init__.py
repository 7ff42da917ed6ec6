"""How it reads: view models, charts and documents formatted from a Recommendation."""
