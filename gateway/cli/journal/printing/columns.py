"""Aligned columns of a table that grows as it is printed: widths only ever grow, so nothing jumps back.

`log -f` prints a few rows at a time and never knows what is coming; whole tables are one batch. On a terminal long
names give way to the last column, which says most, and that one is cut at the edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gateway.cli.journal.printing.output import Output, harmless

GAP = "  "
WIDEST = 70  # one long name should not push everything to the right for ever
NARROWEST = 14  # a name that is shortened keeps as much as this
LEAST = 24  # a last column with less room than this goes on in the next line


class Columns:
    """`right` are titles of numbers; `shares` says what part of a terminal a long name may take, as 1/n."""

    def __init__(
        self,
        output: Output,
        titles: Sequence[str],
        right: Sequence[str] = (),
        shares: Mapping[str, int] | None = None,
    ) -> None:
        self._output, self._titles = output, titles
        self._right = [title in right for title in titles]
        self._shares = [(shares or {}).get(title, 0) for title in titles]
        self._widths = [len(title) for title in titles]
        self._titled = False

    def rows(self, rows: Iterable[Sequence[str]], colors: Sequence[Sequence[str]] = ()) -> None:
        """Print rows; `colors` has the colour of each cell, or nothing."""
        cells = [[self._shown(number, cell) for number, cell in enumerate(row)] for row in rows]
        for row in cells:
            for number, cell in enumerate(row):
                self._widths[number] = max(self._widths[number], min(len(cell), WIDEST))
        if not self._titled and cells:
            self._titled = True
            self._print(self._titles, ["dim"] * len(self._titles))
        for number, row in enumerate(cells):
            self._print(row, colors[number] if colors else [""] * len(row))

    def _shown(self, number: int, cell: str) -> str:
        text, width = harmless(cell), self._output.width
        if width is None or not self._shares[number]:
            return text
        return _middle_out(text, max(NARROWEST, width // self._shares[number]))

    def _print(self, cells: Sequence[str], colors: Sequence[str]) -> None:
        padded = [self._padded(number, cell) for number, cell in enumerate(cells)]
        used = sum(map(len, padded[:-1])) + len(GAP) * (len(cells) - 1)
        if self._output.width is not None and self._output.width - used >= LEAST:
            padded[-1] = self._output.fit(padded[-1], used)
        painted = [self._output.paint(text, color) for text, color in zip(padded, colors, strict=True)]
        self._output.line(GAP.join(painted).rstrip())

    def _padded(self, number: int, cell: str) -> str:
        if self._right[number]:
            return cell.rjust(self._widths[number])
        return cell if number == len(self._titles) - 1 else cell.ljust(self._widths[number])


def _middle_out(text: str, room: int) -> str:
    """Names begin alike and end alike: what is left out is in the middle."""
    if len(text) <= room:
        return text
    return text[: room // 2 - 1] + "…" + text[-(room - room // 2) :]
