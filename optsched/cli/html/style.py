"""The page's style sheet: two themes, one column on a phone, pictures side by side on a wide screen.

Colours of policies and tiers are told apart by people who do not see all colours; every picture has its legend.
"""

from __future__ import annotations

_LIGHT = """
--paper:#fff;--ink:#1c1e21;--faint:#5d6570;--line:#e2e5e9;--card:#f7f8fa;
--tier-g:#1b6ca8;--tier-f:#4fa3d9;--tier-o:#b9dcf2;--held:#f0c75e;--draining:#d9822b;--down:#8c2f39;--off:#b5a6c9;
--queued:#1c1e21;--promise:#c2185b;--stop:#c62828;--h0:#dde2e8;--h1:#cfe3f2;--h2:#93c3e6;--h3:#4d93c9;--h4:#145a92;
--s0:#145a92;--s1:#2a9d8f;--s2:#8ab446;--s3:#e0a526;--s4:#d9692b;--s5:#a23b52;
--p0:#145a92;--p1:#d9692b;--p2:#2a8f5b;--p3:#a23b8a;--p4:#8a6d1d;--p5:#4b4fb5;--p6:#2a9db0;--p7:#7a7f87;
"""
_DARK = """
--paper:#14171b;--ink:#e7eaee;--faint:#9aa4b0;--line:#2c323a;--card:#1b1f25;
--tier-g:#5fb0ea;--tier-f:#2f7fb8;--tier-o:#1f4f74;--held:#d8ad3c;--draining:#d9822b;--down:#d0616c;--off:#7d6c98;
--queued:#f2f4f7;--promise:#ff6fa5;--stop:#ff6b6b;--h0:#353d48;--h1:#1d4568;--h2:#27699f;--h3:#4a9ad6;--h4:#9fd4fb;
--s0:#5fb0ea;--s1:#3cbcae;--s2:#a5cf5c;--s3:#f0bd4a;--s4:#f08a4b;--s5:#e0728c;
--p0:#5fb0ea;--p1:#f08a4b;--p2:#4fc98a;--p3:#e07bc6;--p4:#d8b64a;--p5:#9a9df5;--p6:#4cc6da;--p7:#a9b0b9;
"""
_CLASSES = (
    *("tier-g", "tier-f", "tier-o", "held", "draining", "down", "off", "promise"),
    *(f"h{index}" for index in range(5)),
    *(f"s{index}" for index in range(6)),
    *(f"p{index}" for index in range(8)),
)
_FILLS = "".join(f".{name}{{fill:var(--{name});background:var(--{name})}}" for name in _CLASSES)

STYLE = (
    f":root{{{_LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
    "*{box-sizing:border-box}body{margin:0 auto;max-width:1240px;padding:12px 16px 40px;background:var(--paper);"
    "color:var(--ink);font:15px/1.45 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
    "h1{font-size:1.5rem;margin:.4rem 0 0;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:1.8rem 0 .2rem}"
    "p{margin:.15rem 0 .6rem;color:var(--faint)}"
    ".cards{display:grid;gap:14px;grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr))}"
    ".two{grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr))}"
    "figure{margin:0;padding:8px;background:var(--card);border:1px solid var(--line);border-radius:8px;min-width:0}"
    # Alone in its row a plot would have letters as large as headings.
    ".cards>figure:only-child{max-width:720px}"
    "figcaption{font-weight:600;margin-bottom:4px;overflow-wrap:anywhere}"
    ".one{max-width:560px;padding:8px;background:var(--card);border:1px solid var(--line);border-radius:8px}"
    "svg{display:block;width:100%;height:auto;font-size:10px}svg text{fill:var(--ink)}"
    "svg .faint{fill:var(--faint)}svg .end{text-anchor:end}svg .mid{text-anchor:middle}"
    ".grid{stroke:var(--line);stroke-width:.7;fill:none}.queued{stroke:var(--queued);stroke-width:1.1;fill:none}"
    ".waited{stroke:var(--faint);stroke-width:1.4;stroke-dasharray:2 2;fill:none}"
    ".stopped{stroke:var(--stop);stroke-width:1.8;fill:none}.soft{fill-opacity:.45}"
    ".legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 14px;margin:.2rem 0 .7rem;padding:0;font-size:13px}"
    ".legend li{display:flex;align-items:center;gap:5px}.legend i{width:13px;height:13px;border-radius:3px}"
    ".legend .waited{height:0;border-top:2px dashed var(--faint);border-radius:0}"
    ".legend .queued-line{height:0;border-top:2px solid var(--queued);border-radius:0}"
    ".legend .stopped{width:3px;background:var(--stop)}.legend .promise{transform:rotate(45deg) scale(.7)}"
    ".wide{overflow-x:auto;border:1px solid var(--line);border-radius:8px}"
    "table{border-collapse:separate;border-spacing:0;width:100%;font-variant-numeric:tabular-nums;font-size:14px}"
    "th,td{padding:4px 10px;text-align:right;white-space:nowrap;border-top:1px solid var(--line)}"
    "thead th{border-top:0;background:var(--card)}tbody th{text-align:left;font-weight:400;position:sticky;left:0;"
    "background:var(--paper)}tbody th.sub{padding-left:24px;color:var(--faint)}"
    ".map{display:none}.maps>input{position:absolute;opacity:0}"
    ".maps>label{display:inline-block;padding:3px 12px;margin:0 6px 8px 0;border:1px solid var(--line);"
    "border-radius:999px;cursor:pointer}.maps>input:checked+label{background:var(--ink);color:var(--paper)}"
    ".maps>input:focus-visible+label{outline:2px solid var(--promise)}"
    "footer{margin-top:2rem;color:var(--faint);font-size:13px}"
    "@media(max-width:520px){body{padding:8px 10px 30px}th,td{padding:4px 7px}table{font-size:13px}tbody th{"
    "white-space:normal;min-width:8.5rem}}@media print{.map{display:block}}"
) + _FILLS
