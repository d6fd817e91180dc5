"""Draw printed numbers beside ours, colored by verdict, from a page of `recveil study reproduction`.

python research/reproduction_picture.py research/reproduction/raid2025.md research/reproduction/raid2025.svg

One panel each for attack scores, for ranking measures, and for their changes against the undefended model where the
page names them. The diagonal is where both are the same.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

COLORS = {"reproduced": "#1b7f4d", "artifact": "#c0392b", "setting": "#7f8c8d"}
CHANGE = re.compile(r"the change against the undefended model is ([-+][\d.]+) % there, ([-+][\d.]+) % here")
OURS = re.compile(r"(?<![@\d])-?\d+\.\d+")
PANELS = {"score": "attack score", "change": "change of a ranking measure, %", "level": "ranking measure"}
SIDE, MARGIN = 300, 30
Point = tuple[str, str, float, float]


def read_points(page: Path) -> Iterator[Point]:
    """Yield kind (score, level or change), verdict, printed number and ours of each row that has both."""
    head: list[str] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if "verdict" in cells and "paper" in cells:
            head = cells
        elif not cells:
            head = []
        elif head and len(cells) == len(head):
            row = dict(zip(head, cells, strict=True))
            ours = OURS.search(row["ours"])
            if row["verdict"] not in COLORS or row["measure"] == "seconds" or not row["paper"] or ours is None:
                continue
            change = CHANGE.search(row["reason or note"])
            if change:
                yield "change", row["verdict"], float(change[1]), float(change[2])
            else:
                kind = "level" if "@" in row["measure"] else "score"
                yield kind, row["verdict"], float(row["paper"]), float(ours[0])


def draw_panel(points: list[Point], title: str, left: int) -> Iterator[str]:
    """Yield the elements of one panel: frame, diagonal, a dot for each number, and what the colors mean."""
    numbers = [value for point in points for value in point[2:]]
    low, high = min(numbers), max(numbers)

    def place(value: float) -> float:
        return MARGIN + (SIDE - 2 * MARGIN) * (value - low) / ((high - low) or 1.0)

    yield f'<g transform="translate({left} 0)"><rect x="{MARGIN}" y="{MARGIN}" width="{SIDE - 2 * MARGIN}" '
    yield f'height="{SIDE - 2 * MARGIN}" fill="none" stroke="#999"/>'
    yield f'<path d="M{MARGIN} {SIDE - MARGIN}L{SIDE - MARGIN} {MARGIN}" stroke="#ccc"/>'
    for _, verdict, paper, ours in sorted(points, key=lambda point: list(COLORS).index(point[1]), reverse=True):
        x, y = place(paper), SIDE - place(ours)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{COLORS[verdict]}" fill-opacity="0.6"/>'
    yield f'<text x="{SIDE / 2}" y="{SIDE - 8}" text-anchor="middle">printed {title} ({low:g} to {high:g})</text>'
    yield f'<text transform="translate(14 {SIDE / 2}) rotate(-90)" text-anchor="middle">ours</text>'
    for row, (verdict, color) in enumerate(COLORS.items()):
        count = sum(point[1] == verdict for point in points)
        yield f'<text x="{MARGIN + 6}" y="{MARGIN + 14 + 13 * row}" fill="{color}">{verdict}: {count}</text>'
    yield "</g>"


def draw(page: Path, out: Path) -> None:
    """Draw the picture of a page."""
    points = list(read_points(page))
    shown = [kind for kind in PANELS if any(point[0] == kind for point in points)]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE * len(shown)} {SIDE}" font-size="11" '
        f'font-family="sans-serif" role="img"><title>Printed numbers beside ours: {page.stem}</title>',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for place, kind in enumerate(shown):
        lines += draw_panel([point for point in points if point[0] == kind], PANELS[kind], SIDE * place)
    out.write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
