"""Aligned columns of a table that is printed in batches: widths only grow.

`log -f` prints a few rows at a time, and a reader has seen the rows before: its columns begin with widths for most
names, and when one has to grow, the titles are printed again above the rows that have the new widths. Other tables
have their titles once. On a terminal, long names are shortened in favour of the last column, which has the most
information, and that one is cut at the edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from actors.rewind.difference import escaped
from gateway.cli.journal.printing.output import Output

GAP = "  "
MAX_WIDTH = 70  # one long name should not move all later rows to the right
MIN_NAME_WIDTH = 14  # a shortened name keeps this much
MIN_LAST_WIDTH = 24  # with less space than this, the last column is not cut


class Columns:
    """`right`: titles of right-aligned columns; `shares`: a name may take 1/n of the terminal's width.

    `reserved`: widths that columns have from the start, because rows come one by one.
    """

    def __init__(
        self,
        output: Output,
        titles: Sequence[str],
        right: Sequence[str] = (),
        shares: Mapping[str, int] | None = None,
        reserved: Mapping[str, int] | None = None,
    ) -> None:
        self._output, self._titles = output, titles
        self._right = [title in right for title in titles]
        self._shares = [(shares or {}).get(title, 0) for title in titles]
        self._widths = [
            max(len(title), self._allowed(number, (reserved or {}).get(title, 0)))
            for number, title in enumerate(titles)
        ]
        self._titled: list[int] = []  # the widths below the titles that were printed last
        self._one_by_one = bool(reserved)

    def rows(self, rows: Iterable[Sequence[str]], colors: Sequence[Sequence[str]] = ()) -> None:
        """Print rows; `colors` has the colour of each cell, or is empty."""
        cells = [[self._shown(number, cell) for number, cell in enumerate(row)] for row in rows]
        for row in cells:
            for number, cell in enumerate(row):
                self._widths[number] = max(self._widths[number], min(len(cell), MAX_WIDTH))
        padded = self._widths[:-1]  # the last column is not
        if cells and (not self._titled or (self._one_by_one and self._titled != padded)):
            self._titled = padded
            self._print(self._titles, ["dim"] * len(self._titles))
        for number, row in enumerate(cells):
            self._print(row, colors[number] if colors else [""] * len(row))

    def _shown(self, number: int, cell: str) -> str:
        text = escaped(cell)
        return _shorten(text, self._allowed(number, len(text)))

    def _allowed(self, number: int, wanted: int) -> int:
        """How much of a width a cell of this column may take on this terminal."""
        width, share = self._output.width, self._shares[number]
        if width is None or not share:
            return wanted
        return min(wanted, max(MIN_NAME_WIDTH, width // share))

    def _print(self, cells: Sequence[str], colors: Sequence[str]) -> None:
        padded = [self._padded(number, cell) for number, cell in enumerate(cells)]
        used = sum(map(len, padded[:-1])) + len(GAP) * (len(cells) - 1)
        if self._output.width is not None and self._output.width - used >= MIN_LAST_WIDTH:
            padded[-1] = self._output.fit(padded[-1], used)
        painted = [self._output.paint(text, color) for text, color in zip(padded, colors, strict=True)]
        self._output.line(GAP.join(painted).rstrip())

    def _padded(self, number: int, cell: str) -> str:
        if self._right[number]:
            return cell.rjust(self._widths[number])
        return cell if number == len(self._titles) - 1 else cell.ljust(self._widths[number])


def _shorten(text: str, width: int) -> str:
    """Leave out the middle, because names often differ at both ends."""
    if len(text) <= width:
        return text
    return text[: width // 2 - 1] + "…" + text[-(width - width // 2) :]
