"""Statistics of the ranks of single targets: knowledge graphs, recommendation."""

from jaxrank.ranks.target import TargetRanks as TargetRanks
from jaxrank.ranks.target import from_scores as from_scores
