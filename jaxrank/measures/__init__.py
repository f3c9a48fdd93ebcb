"""Measures: metrics with parameters and names, which are parsed and evaluated together."""

from jaxrank.measures.evaluation import evaluate
from jaxrank.measures.families import trec_families
from jaxrank.measures.grammar import parse
from jaxrank.measures.measure import Measure

__all__ = [
  "Measure",
  "evaluate",
  "parse",
  "trec_families",
]
