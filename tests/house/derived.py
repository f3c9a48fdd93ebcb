"""The files that follow from the public names and the descriptions, with what they should hold."""

import pathlib
from collections.abc import Callable

from tests.house import fusion_table, metric_table, primitive_table, public_api, reference, repeated

FILES: dict[pathlib.Path, Callable[[], str]] = {
  public_api.FILE: public_api.text,
  metric_table.PAGE: metric_table.page,
  metric_table.LOSSES: metric_table.of_losses,
  primitive_table.PAGE: primitive_table.page,
  fusion_table.PAGE: fusion_table.page,
  fusion_table.NAMES: fusion_table.names,
  **reference.PAGES,
  **repeated.FILES,
}
