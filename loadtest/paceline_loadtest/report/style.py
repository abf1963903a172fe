"""The look of a page: one colour for each part of the time in every picture, light and dark."""

from __future__ import annotations

from paceline_loadtest.report.breakdown import PARTS, Part

# Light and dark. What a faster model changes is saturated, what stays is greyer; no two
# neighbours in a bar are told apart by hue alone.
COLOURS: dict[Part, tuple[str, str]] = {
    "queue": ("#c77700", "#e0a04a"),
    "prefill": ("#0b8a8a", "#3bb8b2"),
    "waiting": ("#a88a4a", "#c4a96d"),
    "reasoning": ("#7a52c7", "#a68bea"),
    "output": ("#2468c8", "#6aa6f5"),
    "tools": ("#4c9141", "#7fbf6c"),
    "network": ("#64748b", "#8da0b5"),
    "limits": ("#b5543c", "#e08468"),
    "slots": ("#94706b", "#bd9a95"),
    "client": ("#9aa4ae", "#78828d"),
    "think": ("#c8ced6", "#4d5661"),
    "failed": ("#c0262d", "#f26d6d"),
}

_LIGHT = "".join(f"--{part}:{COLOURS[part][0]};" for part in PARTS)
_DARK = "".join(f"--{part}:{COLOURS[part][1]};" for part in PARTS)
_INK_LIGHT = "--bg:#fff;--fg:#1c1e21;--dim:#5c6470;--grid:#e3e6ea;--on:#fff;"
_INK_DARK = "--bg:#14171b;--fg:#e8eaed;--dim:#a3abb6;--grid:#2c3138;--on:#10131a;"

PICTURE = (
    f".pll{{{_INK_LIGHT}{_LIGHT}font:12px system-ui,sans-serif}}"
    f"@media(prefers-color-scheme:dark){{.pll{{{_INK_DARK}{_DARK}}}}}"
    f"@media print{{.pll{{{_INK_LIGHT}{_LIGHT}}}}}"
    ".pll .b{fill:var(--bg)}.pll text{fill:var(--fg)}.pll .d{fill:var(--dim)}"
    ".pll .t{font-weight:600;font-size:14px}.pll .o{fill:var(--on);font-size:11px}"
    ".pll .g{stroke:var(--grid);fill:none}.pll .a{stroke:var(--dim);fill:none}"
    ".pll .o.think,.pll .o.client{fill:var(--fg)}.pll .lane{fill:var(--grid);opacity:.35}"
    + "".join(f".pll rect.{part}{{fill:var(--{part})}}" for part in PARTS)
)
"""Of the pictures of parts; a picture carries it, so that it can also stand alone."""

_PAGE_LIGHT = (
    "--page:#fff;--ink:#1b1f24;--soft-ink:#5a6472;--line:#dfe3e8;--soft:#f6f8fa;"
    "--bad:#b3261e;--bad-bg:#fdecea;--good:#1f7a3d;--good-bg:#e9f6ee;--warn:#7a5200;"
    "--warn-bg:#fff5dc;"
)
_PAGE_DARK = (
    "--page:#14171b;--ink:#e8eaed;--soft-ink:#a3abb6;--line:#2c3138;--soft:#1b1f25;"
    "--bad:#ff9d94;--bad-bg:#3a1b1b;--good:#7ad69a;--good-bg:#15291d;--warn:#f0c674;"
    "--warn-bg:#332a12;"
)
# The charts of lines follow the screen's scheme by themselves; paper is always light.
_CHART_PRINT = (
    ".plc{--bg:#fff;--fg:#1c1e21;--dim:#5c6470;--grid:#e3e6ea;--c0:#0b63c4;--c1:#c2410c;"
    "--c2:#15803d;--c3:#7c3aed;--c4:#b4256b;--c5:#0f766e}"
)

STYLE = (
    f":root{{color-scheme:light dark;{_PAGE_LIGHT}}}"
    f"@media(prefers-color-scheme:dark){{:root{{{_PAGE_DARK}}}}}"
    """
*{box-sizing:border-box}
html{font-size:clamp(15px,.55vw + 8px,24px);-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:1rem/1.5 system-ui,-apple-system,
"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:80rem;margin:0 auto;padding:1.75rem 1.25rem 4rem}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .2rem;letter-spacing:-.012em}
h2{font-size:1.2rem;margin:2.6rem 0 .3rem;padding-top:.9rem;border-top:1px solid var(--line)}
p{margin:.4rem 0;max-width:58rem}
a{color:inherit}
.facts,.note,figcaption{color:var(--soft-ink);font-size:.88rem}
.facts{margin:0 0 .5rem}
.banner{border-left:4px solid;border-radius:3px;padding:.55rem .85rem;margin:.6rem 0}
.banner p{margin:.15rem 0}
.bad{border-color:var(--bad);background:var(--bad-bg)}.bad b{color:var(--bad)}
.good{border-color:var(--good);background:var(--good-bg)}.good b{color:var(--good)}
.warn{border-color:var(--warn);background:var(--warn-bg)}.warn b{color:var(--warn)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(11.5rem,1fr));gap:.75rem;
margin:1rem 0}
.tile{border:1px solid var(--line);border-radius:6px;padding:.7rem .85rem;background:var(--soft)}
.spoiled .small:last-child{color:var(--bad);font-weight:600}
.tile .name{font-weight:600;overflow-wrap:anywhere}
.tile .big{font-size:1.65rem;line-height:1.25;font-variant-numeric:tabular-nums;
letter-spacing:-.01em}
.tile .small{color:var(--soft-ink);font-size:.88rem}
.said{margin:.8rem 0;padding:0 0 0 1.1rem}.said li{margin:.3rem 0;max-width:58rem}
.scroll{overflow-x:auto;margin:.7rem 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}
th,td{padding:.28rem .8rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
thead th{border-bottom:1px solid var(--soft-ink);font-weight:600;vertical-align:bottom}
th:first-child,td:first-child{text-align:left;padding-left:.15rem}
tbody th{font-weight:400}
.words td:last-child,.words th:last-child,.words td:nth-child(2),.words th:nth-child(2),
.left td,.left th{text-align:left}
.sub th:first-child{padding-left:1.1rem;color:var(--soft-ink)}
figure{margin:1rem 0}
figure svg{display:block;width:100%;height:auto;border:1px solid var(--line);border-radius:6px}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(27rem,100%),1fr));
gap:0 1.25rem;align-items:start}
.grid figure{min-width:0}
details{margin:.35rem 0}summary{cursor:pointer;color:var(--soft-ink);font-size:.88rem}
.narrow{display:none}.beside{min-width:0;align-self:center;font-size:.92rem}
.beside th,.beside td{padding:.28rem .45rem}.beside thead th{white-space:normal}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1.2rem;font-size:.92rem}
dt{font-weight:600}dd{margin:0;max-width:52rem}
@media(max-width:44rem){.narrow{display:block}.wide{display:none}main{padding:1.1rem .8rem 3rem}
h1{font-size:1.4rem}dl{display:block}dd{margin:0 0 .5rem}
table{font-size:.82rem}th,td{padding:.28rem .5rem}
th:first-child{position:sticky;left:0;background:var(--page);white-space:normal;min-width:6.5rem;
max-width:8.5rem}}
"""
    f"@media print{{:root{{{_PAGE_LIGHT}}}{_CHART_PRINT}"
    "main{max-width:none;padding:0}html{font-size:11px}figure,.tile,tr,.banner{break-inside:avoid}"
    "h2,h2+.note{break-after:avoid}.wide{display:block}.narrow{display:none}details>summary{display:none}"
    "th,td{white-space:normal}}"
)
