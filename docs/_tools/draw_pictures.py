"""Draw the pictures of the README and of the site: `make pictures` writes them into docs/pictures."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
INK, FILL, ACCENT = "#334", "#eef1f6", "#3b6ea8"
BOX_WIDTH, BOX_HEIGHT, GAP = 122, 52, 26
STEPS = ("raw files", "data set", "model", "user vectors", "lists")
DEFENDED = {1: "data", 2: "training", 3: "embeddings", 4: "lists"}


def draw_flow() -> str:
    """Draw how data flow, where a defense may act, and what an attacker sees."""
    width = len(STEPS) * (BOX_WIDTH + GAP) + 14
    parts = [_draw_box(14 + i * (BOX_WIDTH + GAP), 70, name) for i, name in enumerate(STEPS)]
    parts += [_draw_arrow(14 + i * (BOX_WIDTH + GAP) + BOX_WIDTH, 96, GAP) for i in range(len(STEPS) - 1)]
    for i, place in DEFENDED.items():
        middle = 14 + i * (BOX_WIDTH + GAP) + BOX_WIDTH / 2
        parts += [_write(middle, 30, f"defense: {place}", ACCENT), _draw_line(middle, 38, middle, 66, ACCENT)]
    left, right = 14 + 3 * (BOX_WIDTH + GAP), width - GAP
    parts += [
        _draw_line(left, 140, right, 140, INK),
        _write((left + right) / 2, 162, "an attacker sees only this", INK),
    ]
    parts += [_write((left + right) / 2, 186, "audit: attacks, numbers, verdict, report", INK)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 200" width="{width}" height="200" role="img" '
        'font-family="system-ui, sans-serif" font-size="14"><title>From raw files to lists: four places where a '
        'defense acts, and what an attacker sees</title><rect width="100%" height="100%" fill="#fff"/>'
        + "".join(parts)
        + "</svg>\n"
    )


def _draw_box(x: float, y: float, name: str) -> str:
    box = f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="{FILL}" stroke="{INK}"/>'
    return box + _write(x + BOX_WIDTH / 2, y + 31, name, INK)


def _draw_arrow(x: float, y: float, length: float) -> str:
    tip = x + length - 2
    return (
        _draw_line(x, y, tip, y, INK)
        + f'<path d="M{tip - 7},{y - 4} L{tip},{y} L{tip - 7},{y + 4}" fill="none" stroke="{INK}"/>'
    )


def _draw_line(x1: float, y1: float, x2: float, y2: float, color: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{color}"/>'


def _write(x: float, y: float, text: str, color: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle" fill="{color}">{text}</text>'


def draw_attackers() -> str:
    """Draw what five attackers reach before and after `cloak`, on a made-up platform of 3,000 users."""
    import recveil as rv
    from recveil.data.synthetic import make_demo_world
    from recveil.report.charts import draw_file
    from recveil.report.notebook import list_figures

    world = make_demo_world()
    result = rv.cloak(world.taste, world.dataset.attributes["gender"], target="gender", method="sliced")
    return draw_file(next(plot for name, plot in list_figures(result).items() if ".advantage" in name))


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in {"flow": draw_flow, "attackers": draw_attackers}.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")
        print(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
