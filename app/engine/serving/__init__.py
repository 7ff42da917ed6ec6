"""Serving: memory and KV pool, prefill and decode, continuous batching, and the sizes that meet a latency limit."""
