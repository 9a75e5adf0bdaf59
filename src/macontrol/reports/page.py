"""A page that opens anywhere: one HTML file with its style, and nothing to fetch or to run.

All text passes through `escape`: a run file may contain anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from macontrol import __version__

# Nothing may be fetched or run, whatever text got into the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --ink: #1c2126; --soft: #59636e; --edge: #d8dee4;
  --card: #f5f7f9; --run: #c4440a; --other: #0b63b0; --third: #7a3e9d; --fixed: #a23b78;
  --best: #6d7781; --band: #c4440a2e; --good: #1a7037; --bad: #b3261e; --grid: #e6eaee; }
@media (prefers-color-scheme: dark) { :root { --back: #12161a; --ink: #e4e8ec; --soft: #9aa5b1;
  --edge: #323a43; --card: #1b2026; --run: #ff9357; --other: #6db3f2; --third: #c79be6;
  --fixed: #eb9ac9; --best: #9aa5b1; --band: #ff935733; --good: #6fcf8f; --bad: #ff8a80;
  --grid: #262d35; } }
@media print { :root { color-scheme: light; --back: #fff; --ink: #000; --soft: #444; --card: #fff;
  --edge: #bbb; --run: #c4440a; --other: #0b63b0; --third: #7a3e9d; --fixed: #a23b78;
  --best: #6d7781; --band: #c4440a2e; --good: #1a7037; --bad: #b3261e; --grid: #ddd; }
  main { max-width: none; } section, .tiles > div, tr { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
main { max-width: 66rem; margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 2.5rem) 3rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .3rem; }
h3 { font-size: 1rem; margin: .6rem 0 .2rem; }
p { margin: .3rem 0 .8rem; max-width: 48rem; }
.soft, figcaption, .facts { color: var(--soft); font-size: .9rem; }
.lead { font-size: 1.15rem; line-height: 1.55; max-width: 48rem; margin: 1rem 0 1.2rem; }
.state { display: inline-block; border: 1px solid var(--edge); border-radius: 1rem;
  padding: 0 .7rem; font-size: .85rem; color: var(--soft); }
.state.bad, .bad { color: var(--bad); } .state.good, .good { color: var(--good); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.1rem, 1fr)); gap: .5rem;
  margin: 1rem 0; }
.tiles.eight { grid-template-columns: repeat(auto-fit, minmax(max(8.1rem, 21%), 1fr)); }
.tiles > div { background: var(--card); border: 1px solid var(--edge); border-radius: .5rem;
  padding: .6rem .8rem; }
.tiles b { display: block; font-size: 1.35rem; font-weight: 600; line-height: 1.3;
  font-variant-numeric: tabular-nums; }
.tiles span { color: var(--soft); font-size: .82rem; display: block; line-height: 1.35; }
.many { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr));
  gap: 1rem 2rem; }
figure { margin: .6rem 0 0; }
.plot { display: grid; grid-template-columns: 2.9rem 1fr auto; margin-top: 1.6rem; }
.plot > svg { width: 100%; height: var(--height); display: block; background: var(--card);
  overflow: hidden; }
.plot .y { position: relative; grid-column: 1; height: var(--height); }
.plot .y.right { grid-column: 3; width: 2.9rem; }
.plot .y span, .plot .x span { position: absolute; font-size: .75rem; color: var(--soft);
  font-variant-numeric: tabular-nums; line-height: 1; white-space: nowrap; }
.plot .y span { right: .4rem; transform: translateY(50%); }
.plot .y.right span { right: auto; left: .4rem; }
.plot .y i { position: absolute; left: 0; bottom: calc(100% + .45rem); font-style: normal;
  font-size: .75rem; line-height: 1; color: var(--soft); white-space: nowrap; }
.plot .y.right i { left: auto; right: 0; }
.plot .x { position: relative; grid-column: 2; height: 1.1rem; }
.plot .x span { top: .35rem; transform: translateX(-50%); }
.plot .xlabel { grid-column: 2; font-size: .75rem; color: var(--soft); text-align: center; }
.plot path, .key path { fill: none; vector-effect: non-scaling-stroke; stroke-width: 1.6;
  stroke-linejoin: round; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; font-size: .85rem; margin-top: .5rem; }
.legend .key { width: 1.5rem; height: .65rem; margin-right: .35rem; }
.plot image.sharp { image-rendering: pixelated; }
path.grid { stroke: var(--grid); stroke-width: 1; }
.plot path.run, .key path.run { stroke: var(--run); }
.plot path.other, .key path.other { stroke: var(--other); }
.plot path.third, .key path.third { stroke: var(--third); }
.plot path.fixed, .key path.fixed { stroke: var(--fixed); stroke-dasharray: 6 3; }
.plot path.best, .key path.best { stroke: var(--best); }
.plot path.surface, .key path.surface { stroke: var(--other); stroke-dasharray: 2 2; }
.plot path.mark, .key path.mark { stroke: var(--ink); stroke-width: 1; }
.plot path.aim, .key path.aim { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 2 3; }
.plot path.limit, .key path.limit { stroke: var(--bad); stroke-dasharray: 5 3; }
.plot path.band, .key path.band { fill: var(--band); stroke: none; }
.plot path.bar { fill: var(--other); stroke: none; }
.key path.band { stroke: var(--band); stroke-width: 8; }
.plot path.halo { stroke: #fff; stroke-width: 3.6; stroke-opacity: .85; }
.plot path.way, .key path.way { stroke: #d2390b; stroke-width: 1.7; }
.plot path.place, .key path.place { stroke: #a23b78; stroke-width: 1.5; stroke-dasharray: 7 4; }
.scale { display: flex; align-items: center; gap: .5rem; font-size: .8rem; color: var(--soft);
  margin-top: .4rem; }
.scale i { flex: 0 1 12rem; height: .6rem; border-radius: .2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .4rem 0 .8rem;
  font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .22rem 1.1rem .22rem 0;
  border-bottom: 1px solid var(--edge); overflow-wrap: break-word; min-width: 4.5rem; }
td:last-child:not(.number) { min-width: 9rem; }
th { color: var(--soft); font-weight: 500; } td.number, th.number { text-align: right; }
td.meter { min-width: 6rem; } td.meter i { display: block; height: .7rem; margin-top: .35rem;
  background: var(--other); border-radius: .15rem; min-width: 1px; }
code { font: .85em ui-monospace, "DejaVu Sans Mono", monospace; }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--other); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8rem; margin: 0; }
footer { margin-top: 3rem; padding-top: .8rem; border-top: 1px solid var(--edge);
  color: var(--soft); font-size: .85rem; }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """A complete HTML file."""
    body = "\n".join(part for part in parts if part)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{body}\n<footer>Written by macontrol {escape(__version__)}. This page is one file: it "
        "fetches nothing and runs no script.</footer>\n</main>\n</body>\n</html>\n"
    )


def section(title: str, *parts: str, note: str = "") -> str:
    """A section with a heading; empty without content."""
    content = "".join(part for part in parts if part)
    text = f'<p class="soft">{escape(note)}</p>' if note else ""
    return f"<section><h2>{escape(title)}</h2>{text}{content}</section>" if content else ""


def paragraph(text: str, look: str = "") -> str:
    """A paragraph of plain text."""
    return f'<p class="{look}">{escape(text)}</p>' if text else ""


def tiles(facts: Sequence[tuple[str, str, str]]) -> str:
    """Key figures: value, name, and what it is compared with."""
    look = "tiles eight" if len(facts) == 8 else "tiles"  # two rows of four, none alone in a row
    return (
        f'<div class="{look}">'
        + "".join(
            f"<div><b>{escape(value)}</b><span>{escape(name)}</span>"
            f"{f'<span>{escape(note)}</span>' if note else ''}</div>"
            for value, name, note in facts
        )
        + "</div>"
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    """A table of plain text; `numbers` are the columns that are aligned to the right."""
    right = set(numbers)
    looks = [' class="number"' if place in right else "" for place in range(len(heads))]
    head = "".join(
        f"<th{look}>{escape(text)}</th>" for text, look in zip(heads, looks, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{look}>{escape(text)}</td>" for text, look in zip(row, looks, strict=True))
        + "</tr>"
        for row in rows
    )
    content = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="wide"><table>{content}</table></div>'


def details(summary: str, content: str) -> str:
    """Content that is shown on a click."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"
