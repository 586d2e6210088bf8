"""Just enough SVG to draw bar charts: text, rectangles, lines, and a card behind them.

The card has its own background and its colours follow the reader's light or dark setting, so a chart is readable on
any page. No library: a chart has forty elements.
"""

from __future__ import annotations

from html import escape

WIDTH = 880
STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de } .ink { fill: #1f2328 } .quiet { fill: #59636e }
  .track { fill: #dfe3e8 } .bar { fill: #0969da } .second { fill: #8250df } .base { fill: #9aa4af }
  .line { stroke: #bc4c00; stroke-dasharray: 4 3 } .mark { fill: #bc4c00 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #30363d } .ink { fill: #e6edf3 } .quiet { fill: #9198a1 }
    .track { fill: #2a313c } .bar { fill: #4493f8 } .second { fill: #ab7df8 } .base { fill: #6e7681 }
    .line { stroke: #f0883e } .mark { fill: #f0883e }
  }
  text { font: 13px -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif }
  .title { font-size: 16px; font-weight: 600 } .small { font-size: 12px }
"""


class Drawing:
    def __init__(self, title: str, subtitle: str) -> None:
        self._elements: list[str] = []
        self._title = title
        self.text(24, 34, title, "ink title")
        self.text(24, 54, subtitle, "quiet small")

    def text(self, x: float, y: float, text: str, classes: str = "ink", anchor: str = "start") -> None:
        escaped = escape(text).replace(" us", " µs")
        self._elements.append(
            f'<text x="{x:g}" y="{y:g}" class="{classes}" text-anchor="{anchor}">{escaped}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float, classes: str) -> None:
        place = f'x="{x:.1f}" y="{y:g}" width="{max(width, 1):.1f}" height="{height:g}"'
        self._elements.append(f'<rect {place} rx="2" class="{classes}"/>')

    def dashed(self, x: float, top: float, bottom: float) -> None:
        self._elements.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:g}" y2="{bottom:g}" class="line"/>')

    def finish(self, height: float) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" '
            f'viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(self._title)}">'
        )
        card = f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="6" class="card"/>'
        return "\n".join([head, f"<style>{STYLE}</style>", card, *self._elements, "</svg>", ""])
