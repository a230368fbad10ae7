"""A chart of every goal, as SVG: how much of its goal each figure takes; pure."""

from collections.abc import Iterable, Sequence
from html import escape

from msgspec import Struct

from bench.figures import Result, Verdict
from bench.formatting import goal_text, measured_text, ratio_text
from bench.row import Measured

WIDTH = 1040
LABELS = 350
"""Where the bars begin."""
BARS = 300
LINE = 26
TOP = 64
MOST = 2.0
"""Bars end here, in goals; what goes further is cut off and says so by its number."""

_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; }
  .quiet { fill: #59636e; font-size: 12px; }
  .met { fill: #2da44e; }
  .missed { fill: #cf222e; }
  .goal { stroke: #59636e; stroke-width: 1.5; stroke-dasharray: 4 3; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .quiet { fill: #9198a1; }
    .met { fill: #3fb950; }
    .missed { fill: #f85149; }
    .goal { stroke: #9198a1; }
  }
"""


class Bar(Struct, frozen=True):
    """One figure of the chart."""

    label: str
    share: float | None
    """Of its goal; None if it is beyond any measure."""
    value: str
    met: bool


def bars_of(measured: Iterable[Measured]) -> tuple[Bar, ...]:
    """Every figure that has a goal."""
    return tuple(
        Bar(
            f"{one.row.name}: {result.figure.name}",
            result.share_of_goal,
            f"{ratio_text(result) or measured_text(result)}, goal {goal_text(result)}",
            result.verdict is Verdict.MET,
        )
        for one in measured
        for result in one.results
        if _has_goal(result)
    )


def svg(bars: Sequence[Bar], caption: str) -> str:
    """The chart, which needs nothing but itself and is legible on light and on dark."""
    height = TOP + LINE * len(bars) + 40
    goal = LABELS + BARS / MOST
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>Measured, as a share of each goal</title><style>{_STYLE}</style>",
        '<text class="title" x="12" y="26">Measured, as a share of each goal</text>',
        '<text class="quiet" x="12" y="46">Shorter is better; up to the dashed line is met</text>',
        f'<line class="goal" x1="{goal}" x2="{goal}" y1="{TOP - 12}" y2="{height - 34}"/>',
        f'<text class="quiet" x="{goal}" y="{TOP - 16}" text-anchor="middle">goal</text>',
        *(part for place, bar in enumerate(bars) for part in _drawn(bar, place)),
        f'<text class="quiet" x="12" y="{height - 12}">{escape(caption)}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _drawn(bar: Bar, place: int) -> tuple[str, ...]:
    y = TOP + LINE * place
    share = MOST if bar.share is None else min(bar.share, MOST)
    width = max(share / MOST * BARS, 1)
    kind = "met" if bar.met else "missed"
    return (
        f'<text x="{LABELS - 8}" y="{y + 13}" text-anchor="end">{escape(bar.label)}</text>',
        f'<rect class="{kind}" x="{LABELS}" y="{y}" width="{width:.1f}" height="16" rx="2"/>',
        f'<text class="quiet" x="{LABELS + BARS + 10}" y="{y + 13}">{escape(bar.value)}</text>',
    )


def _has_goal(result: Result) -> bool:
    return result.verdict is not Verdict.SHOWN
