"""Formats one figure with its unit."""

from __future__ import annotations


def show(figure: str, value: float | None) -> str:
    """A figure with its unit, three digits or so."""
    if value is None:
        return ""
    if figure.endswith("_us"):
        return _microseconds(value)
    if figure.endswith("_ms"):
        return f"{value:.1f} ms" if value >= 10 else f"{value:.2f} ms"
    if figure == "rate":
        return f"{value:,.0f}/s" if value >= 100 else f"{value:.1f}/s"
    if figure in ("seconds", "cpu_seconds"):
        return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"
    if figure.endswith("mb"):
        return f"{value:.0f} MB"
    if figure == "kb":
        return f"{value:.1f} kB"
    return f"{value:.2f}x"


def _microseconds(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:.2f} ms"
    return f"{value:.0f} us" if value >= 20 else f"{value:.1f} us"
