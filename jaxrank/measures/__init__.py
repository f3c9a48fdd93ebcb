"""Measures: metrics with parameters and names, parsed and evaluated together."""

from jaxrank.measures.evaluation import evaluate as evaluate
from jaxrank.measures.grammar import parse as parse
from jaxrank.measures.grammar import resolve_metrics as resolve_metrics
from jaxrank.measures.measure import Measure as Measure
