"""What recommendations are worth beyond accuracy: novelty, distances, and use of a catalogue.

`Catalogue` counts how often each item is recommended, over any number of lists. `novelty` and
`intra_list_distance` are metrics of a list, smooth in the scores under a smooth ranking.
"""

from jaxrank.catalogue.counts import Catalogue, CatalogueState
from jaxrank.catalogue.lists import intra_list_distance, novelty

__all__ = [
  "Catalogue",
  "CatalogueState",
  "intra_list_distance",
  "novelty",
]
