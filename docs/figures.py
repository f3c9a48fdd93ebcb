"""Pictures of matplotlib that suit a light and a dark page."""

import re
from pathlib import Path

_COLOUR = re.compile(r"(stroke|fill): (#[0-9a-f]{6})")
_STYLE = """<style type="text/css">@media (prefers-color-scheme: dark) {{
svg {{ fill: #e6e6e6 }}
[id^="patch_"] > path[style*="fill: #ffffff"] {{ fill: none !important }}
{rules}
}}</style>
"""


def in_both_modes(svg: str) -> str:
  """A picture of matplotlib with the colours of a dark page beside those of a light one.

  There black and dark colours are lighter, and the white behind a figure or a legend disappears.
  """
  if "prefers-color-scheme" in svg or "matplotlib" not in svg.lower():
    return svg
  found = sorted(set(_COLOUR.findall(svg)))
  rules = "\n".join(
    f'[style*="{kind}: {ink}"] {{ {kind}: {lighter(ink)} !important }}'
    for kind, ink in found
    if lighter(ink) != ink
  )
  style = _STYLE.format(rules=rules)
  return re.sub(r"(<svg [^>]*>\n)", lambda start: start[1] + style, svg, count=1)


def lighter(ink: str) -> str:
  """A colour for a dark page: greys are inverted, and dark colours mixed with white."""
  parts = [int(ink[i : i + 2], 16) / 255 for i in (1, 3, 5)]
  luminance = sum(share * part for share, part in zip((0.21, 0.72, 0.07), parts, strict=True))
  if max(parts) - min(parts) < 0.05:
    parts = [min(1 - luminance, 0.9) if luminance < 0.4 else luminance] * 3
  else:
    white = max(0.0, 0.6 - luminance)
    parts = [part + white * (1 - part) for part in parts]
  return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def adapt(folder: Path) -> None:
  """Rewrites the pictures of a folder."""
  for path in folder.glob("*.svg"):
    path.write_text(in_both_modes(path.read_text(encoding="utf-8")), encoding="utf-8")
