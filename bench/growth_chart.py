"""A chart of each feature, as SVG: what a change costs for each member as the fleet grows; pure."""

from collections.abc import Mapping
from html import escape
from math import log

from bench.growth import Cost

WIDTH, HEIGHT, MARGIN = 330, 190, 40
COLOURS = {"plans": "#0969da", "writes": "#cf222e", "events": "#1a7f37", "bytes": "#9a6700"}
MOST = 2.0
"""The top of each chart, in costs for a member of the smallest fleet."""

_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 14px; font-weight: 600; }
  .quiet { fill: #59636e; }
  .axis { stroke: #8c959f; }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .quiet { fill: #9198a1; } }
"""


def growth_svg(costs: Mapping[str, Mapping[int, Cost]]) -> str:
    """Charts beside and below each other, one of each feature."""
    rows = -(-len(costs) // 2)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} '
            f'{rows * HEIGHT + 40}" role="img">'
        ),
        f"<title>What a change costs for each member</title><style>{_STYLE}</style>",
        *_legend(),
    ]
    for place, (feature, found) in enumerate(costs.items()):
        x, y = place % 2 * WIDTH, 40 + place // 2 * HEIGHT
        parts.append(f'<g transform="translate({x},{y})">{_chart(feature, found)}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend() -> list[str]:
    return [
        f'<text x="{MARGIN + 90 * place}" y="22" style="fill: {colour}">{name}</text>'
        for place, (name, colour) in enumerate(COLOURS.items())
    ]


def _chart(feature: str, costs: Mapping[int, Cost]) -> str:
    """Lines over a logarithmic axis of sizes, relative to the smallest fleet."""
    sizes = sorted(costs)
    width, height = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN

    def x(size: int) -> float:
        return MARGIN + log(size / sizes[0]) / log(sizes[-1] / sizes[0]) * width

    def y(share: float) -> float:
        return MARGIN + height * (1 - min(share, MOST) / MOST)

    drawn = [f'<text class="title" x="{MARGIN}" y="{MARGIN - 16}">{escape(feature)}</text>']
    drawn += [
        f'<line class="axis" x1="{MARGIN}" x2="{MARGIN + width}" y1="{y(value)}" '
        f'y2="{y(value)}" stroke-dasharray="3 4"/>'
        f'<text class="quiet" x="{MARGIN - 8}" y="{y(value) + 4}" text-anchor="end">'
        f"{value:.0f}</text>"
        for value in (0.0, 1.0, 2.0)
    ]
    drawn += [
        f'<text class="quiet" x="{x(size):.0f}" y="{HEIGHT - MARGIN + 18}" '
        f'text-anchor="middle">{size}</text>'
        for size in sizes
    ]
    for name, colour in COLOURS.items():
        each = {size: costs[size].per_change[name] / size for size in sizes}
        base = each[sizes[0]] or 1.0
        points = " ".join(f"{x(n):.1f},{y(v / base):.1f}" for n, v in each.items())
        drawn.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
    return "".join(drawn)
