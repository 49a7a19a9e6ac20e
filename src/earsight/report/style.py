"""How the web page looks: system fonts, light and dark, on a phone, on a screen and on paper."""

CSS = """
:root {
  color-scheme: light dark;
  --page: #f6f6f3; --sheet: #ffffff; --ink: #1d2125; --soft: #5b646d; --line: #dfe1dd; --fill: #eceeea; --out: #cdd1cc;
  --accent: #0072b2; --warn: #8a4b00; --warn-page: #fff6e5; --warn-line: #edc889;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171a; --sheet: #1c2024; --ink: #e7e9ea; --soft: #9fa8b0; --line: #33393f; --fill: #2a2f35;
    --out: #454d55; --accent: #5bb4e8; --warn: #f3c27a; --warn-page: #2b2317; --warn-line: #5f4a24;
  }
  .plot { filter: invert(1) hue-rotate(180deg); mix-blend-mode: screen; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; max-width: 1120px; padding: 2.2rem 1.25rem 4rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
h1 { font-size: 1.9rem; line-height: 1.2; margin: .1rem 0 .35rem; letter-spacing: -.015em; }
h2 { font-size: 1.4rem; line-height: 1.25; margin: 3.2rem 0 .3rem; letter-spacing: -.01em; }
h3 { font-size: 1.02rem; margin: 2.2rem 0 .7rem; }
h1, h2, h3, code, li { overflow-wrap: anywhere; }
td { overflow-wrap: break-word; }
p { margin: .4rem 0; }
a { color: var(--accent); text-underline-offset: .15em; }
code, pre { font: .88em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
pre { margin: .5rem 0; padding: .8rem 1rem; background: var(--fill); border-radius: 8px; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.over { color: var(--soft); font-size: .8rem; letter-spacing: .06em; text-transform: uppercase; margin: 0; }
.soft { color: var(--soft); }
.facts { color: var(--soft); font-size: .93rem; margin: .1rem 0 1.2rem; }
.warnings { margin: 1.4rem 0; padding: .85rem 1.1rem; background: var(--warn-page); border: 1px solid var(--warn-line);
  border-radius: 10px; }
.warnings h2 { font-size: 1rem; margin: 0 0 .3rem; color: var(--warn); letter-spacing: 0; }
.warnings ul { margin: 0; padding-left: 1.15rem; }
.warnings li { margin: .25rem 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); gap: .9rem; }
.card, .figure { background: var(--sheet); border: 1px solid var(--line); border-radius: 10px; }
.card { padding: .9rem 1.05rem 1rem; }
.card h4 { margin: 0; font-size: .92rem; font-weight: 600; color: var(--soft); }
.card p { font-size: .88rem; line-height: 1.45; color: var(--soft); margin: .55rem 0 0; }
.card .big { font-size: 2rem; line-height: 1.15; font-weight: 650; letter-spacing: -.02em; color: var(--ink);
  margin: .1rem 0 0; font-variant-numeric: tabular-nums; }
.card .big small { font-size: .82rem; font-weight: 400; letter-spacing: 0; color: var(--soft); margin-left: .5rem;
  white-space: nowrap; }
.card .scroll { margin: .45rem 0 0; }
.card table { font-size: .86rem; }
.card th, .card td, .card th.n { padding: .24rem .3rem; min-width: 0; }
.card td:first-child, .card th:first-child { padding-left: 0; }
.scale { display: block; width: 100%; height: 26px; margin: .55rem 0 .15rem; overflow: visible; }
.scale .track { fill: var(--fill); }
.scale .out { fill: var(--out); }
.scale .span { fill: var(--accent); opacity: .38; }
.scale .value { fill: var(--accent); }
.scale .mark { stroke: var(--ink); stroke-width: 1.5; }
.keys { display: flex; flex-wrap: wrap; gap: .1rem .9rem; font-size: .8rem; color: var(--soft); list-style: none;
  margin: 0; padding: 0; font-variant-numeric: tabular-nums; }
.keys b { font-weight: 600; color: var(--ink); }
.scroll { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .42rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; font-size: .82rem; color: var(--soft); vertical-align: bottom; }
td.n, th.n { text-align: right; }
th.n { min-width: 5.4em; }
td.n { white-space: nowrap; }
table.rows td:first-child { min-width: 9.5rem; }
tr.bold td { font-weight: 600; }
table.narrow { width: auto; min-width: min(100%, 30rem); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr)); gap: .9rem; }
.figure { margin: 0; padding: .7rem .8rem .8rem; break-inside: avoid; overflow: hidden; }
.figure img { display: block; width: 100%; height: auto; }
.figure h3 { margin: .2rem .1rem .3rem; }
.figure h3:not(:first-child) { margin-top: 1.4rem; }
.figure figcaption { font-size: .88rem; line-height: 1.45; color: var(--soft); margin-top: .45rem; }
@media screen and (prefers-color-scheme: light) { .plot { mix-blend-mode: multiply; } }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(225px, 1fr)); gap: 1rem .9rem; }
.tile { margin: 0; break-inside: avoid; min-width: 0; }
.tile img { display: block; width: 100%; height: auto; border-radius: 7px; }
.tile figcaption { font-size: .8rem; line-height: 1.35; margin-top: .3rem; overflow-wrap: anywhere; }
.tile span, .tile code { display: block; }
.tile code { color: var(--soft); font-size: .74rem; }
details { margin: .7rem 0; }
summary { cursor: pointer; color: var(--accent); }
details .cards { margin-bottom: .9rem; }
details[open] > summary { margin-bottom: .5rem; }
.missing { columns: 19rem auto; column-gap: 2rem; font-size: .84rem; padding-left: 1.1rem; margin: 0; }
.missing li { break-inside: avoid; margin: .15rem 0; }
@media (max-width: 560px) {
  body { padding: 1.3rem .9rem 3rem; }
  h1 { font-size: 1.5rem; }
  .cards { grid-template-columns: minmax(0, 1fr); }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  th, td { padding: .4rem .5rem; }
}
@media print {
  :root { --page: #fff; --sheet: #fff; --ink: #000; --soft: #444; --line: #ccc; --fill: #eee; --out: #ccc;
    --accent: #0072b2; --warn: #6b3a00; --warn-page: #fff; --warn-line: #b58a45; color-scheme: light; }
  body { max-width: none; padding: 0; font-size: 11pt; }
  .plot { filter: none; mix-blend-mode: normal; }
  .card, .figure, .tile, tr, .warnings { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .scroll { overflow: visible; }
  .cards, .figures { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .tiles { grid-template-columns: repeat(4, minmax(0, 1fr)); }
  nav { display: none; }
}
"""
