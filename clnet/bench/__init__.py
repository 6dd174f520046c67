"""Benchmarks that check their results before they time them."""
