"""Pictures of matplotlib that suit a light and a dark page."""

import re
from pathlib import Path

# Black, the greys of axes and dark blue become light; the white behind a figure disappears.
_LIGHT = {
  "#000000": "#e6e6e6",
  "#222222": "#e6e6e6",
  "#555555": "#b0b0b0",
  "#30638e": "#6aa5d8",
}
_DARK = "\n".join(
  f'[style*="{kind}: {ink}"] {{ {kind}: {light} !important }}'
  for kind in ("stroke", "fill")
  for ink, light in _LIGHT.items()
)
_STYLE = f"""<style type="text/css">@media (prefers-color-scheme: dark) {{
svg {{ fill: #e6e6e6 }}
[id^="patch_"] > path[style*="fill: #ffffff"] {{ fill: none !important }}
{_DARK}
}}</style>
"""


def in_both_modes(svg: str) -> str:
  """A picture of matplotlib with the colours of a dark page beside those of a light one."""
  if _STYLE in svg or "matplotlib" not in svg.lower():
    return svg
  return re.sub(r"(<svg [^>]*>\n)", lambda start: start[1] + _STYLE, svg, count=1)


def adapt(folder: Path) -> None:
  """Rewrites the pictures of a folder."""
  for path in folder.glob("*.svg"):
    path.write_text(in_both_modes(path.read_text(encoding="utf-8")), encoding="utf-8")
