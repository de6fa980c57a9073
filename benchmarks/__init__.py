"""Benchmarks: ndpool against the memory's limit and its peers. Run with ``python -m benchmarks``."""
