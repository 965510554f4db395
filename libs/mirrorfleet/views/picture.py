"""Where the lines of the estate's picture and of a partition's ruler go. Units are SVG's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mirrorfleet.views.models import ClusterView, LinkView, PartitionRow

NODE_WIDTH: Final = 168
NODE_HEIGHT: Final = 58
_WIDTH: Final = 860
_MARGIN: Final = 20
_BEND: Final = 56
"""How far a link bends to its right side, so that both directions of a pair are seen."""
_GAP: Final = 7
_ASIDE: Final = 27
"""From the middle of a link to the middle of its label, on the outer side."""
_LEAST: Final = 0.04
"""Width of a part of the ruler that is small but there."""


@dataclass(frozen=True, slots=True)
class Node:
    """A cluster; (x, y) is its centre."""

    cluster: ClusterView
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Edge:
    """A link; `path` is SVG's, the two lines of its label have (x, y) between them."""

    link: LinkView
    path: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Topology:
    """Clusters and links with their places."""

    width: int
    height: int
    nodes: list[Node]
    edges: list[Edge]


@dataclass(frozen=True, slots=True)
class Ruler:
    """Shares of a line, 0 to 1: copied, still to copy, held by open transactions."""

    copied: float
    waiting: float
    held: float


def topology(clusters: Sequence[ClusterView], links: Sequence[LinkView]) -> Topology:
    """Clusters on an ellipse, two of them side by side; links as arrows between them."""
    height = 240 if len(clusters) <= 2 else 260 + 60 * min(len(clusters), 6)
    places = _places(len(clusters), height)
    nodes = [Node(one, *place) for one, place in zip(clusters, places, strict=True)]
    known = {node.cluster.alias: node for node in nodes}
    edges = [
        _edge(link, known[link.source], known[link.target])
        for link in links
        if link.source in known and link.target in known
    ]
    return Topology(_WIDTH, height, nodes, edges)


def ruler(row: PartitionRow) -> Ruler | None:
    """How the source's log divides; None when its ends are not known or it is empty."""
    marks = (row.log_start, row.next_source, row.last_stable, row.high_watermark)
    start, at, stable, end = marks
    if start is None or at is None or stable is None or end is None or end <= start:
        return None
    at = min(max(at, start), end)
    stable = min(max(stable, at), end)
    total = end - start
    parts = [(at - start) / total, (stable - at) / total, (end - stable) / total]
    seen = [max(part, _LEAST) if part > 0 else 0.0 for part in parts]
    return Ruler(*(part / sum(seen) for part in seen))


def _places(number: int, height: int) -> list[tuple[float, float]]:
    middle = (_WIDTH / 2, height / 2)
    if number == 1:
        return [middle]
    across = _WIDTH / 2 - NODE_WIDTH / 2 - _MARGIN
    down = height / 2 - NODE_HEIGHT / 2 - _ASIDE - _MARGIN
    turns = [math.pi + 2 * math.pi * place / max(number, 1) for place in range(number)]
    return [(middle[0] + across * math.cos(t), middle[1] + down * math.sin(t)) for t in turns]


def _edge(link: LinkView, source: Node, target: Node) -> Edge:
    across, down = target.x - source.x, target.y - source.y
    length = math.hypot(across, down) or 1.0
    out_x, out_y = down / length, -across / length
    bend_x = (source.x + target.x) / 2 + out_x * _BEND * 2
    bend_y = (source.y + target.y) / 2 + out_y * _BEND * 2
    begin, end = _border(source, bend_x, bend_y), _border(target, bend_x, bend_y)
    path = f"M{begin[0]:.0f} {begin[1]:.0f} Q{bend_x:.0f} {bend_y:.0f} {end[0]:.0f} {end[1]:.0f}"
    x = (begin[0] + 2 * bend_x + end[0]) / 4 + out_x * _ASIDE
    y = (begin[1] + 2 * bend_y + end[1]) / 4 + out_y * _ASIDE
    return Edge(link, path, round(x), round(y))


def _border(node: Node, x: float, y: float) -> tuple[float, float]:
    """Where the line from a node's centre towards (x, y) leaves its box, with a gap."""
    across, down = x - node.x, y - node.y
    half_x, half_y = NODE_WIDTH / 2 + _GAP, NODE_HEIGHT / 2 + _GAP
    scale = max(abs(across) / half_x, abs(down) / half_y) or 1.0
    return node.x + across / scale, node.y + down / scale
