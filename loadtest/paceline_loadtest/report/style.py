"""The look of a page: one colour for each part of the time in every picture, light and dark."""

from __future__ import annotations

from paceline_loadtest.report.breakdown import PARTS, Part

# Light and dark. Parts that people tune (the model's) are saturated; what stays is greyer.
COLOURS: dict[Part, tuple[str, str]] = {
    "queue": ("#d98a1f", "#e5a54b"),
    "prefill": ("#0f8f8f", "#35b3ae"),
    "waiting": ("#a88a4a", "#c4a96d"),
    "reasoning": ("#7a55c7", "#a084e8"),
    "output": ("#2b6cc9", "#5b9cf2"),
    "tools": ("#4d8f3a", "#79b765"),
    "network": ("#5f7183", "#8497ab"),
    "limits": ("#b5543c", "#d9795f"),
    "slots": ("#94706b", "#b89590"),
    "client": ("#98a1ab", "#737d88"),
    "think": ("#c9cfd6", "#4a525c"),
    "failed": ("#c0262d", "#ef5b5b"),
}

_LIGHT = "".join(f"--{part}:{COLOURS[part][0]};" for part in PARTS)
_DARK = "".join(f"--{part}:{COLOURS[part][1]};" for part in PARTS)

STYLE = (
    f":root{{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--dim:#5a6472;--line:#dfe3e8;"
    f"--soft:#f5f7f9;--bad:#b3261e;--badbg:#fdecea;--good:#1f7a3d;--warnbg:#fff6e0;{_LIGHT}}}"
    f"@media(prefers-color-scheme:dark){{:root{{--page:#13161a;--ink:#e7eaee;--dim:#a1abb8;"
    f"--line:#2d333b;--soft:#1b2026;--bad:#ff8a80;--badbg:#3a1a1a;--good:#6fcf8d;--warnbg:#332a12;"
    f"{_DARK}}}}}"
    # A printed page is a light one whatever the screen is.
    f"@media print{{:root{{--page:#fff;--ink:#000;--dim:#444;--line:#bbb;--soft:#f5f7f9;"
    f"--bad:#b3261e;--badbg:#fdecea;--good:#1f7a3d;--warnbg:#fff6e0;{_LIGHT}}}}}"
    """
*{box-sizing:border-box}
html{font-size:clamp(15px,.45vw + 9px,22px)}
body{margin:0;background:var(--page);color:var(--ink);font:1rem/1.5 system-ui,-apple-system,
"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:72rem;margin:0 auto;padding:1.5rem 1.25rem 4rem}
h1{font-size:1.6rem;line-height:1.2;margin:.25rem 0 .5rem;letter-spacing:-.01em}
h2{font-size:1.2rem;margin:2.5rem 0 .35rem;letter-spacing:-.005em}
p{margin:.4rem 0;max-width:56rem}
.dim{color:var(--dim)}
"""
)
