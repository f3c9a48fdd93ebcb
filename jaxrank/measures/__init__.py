"""Measures by name: `parse`, `evaluate`, `resolve_metrics`."""

from jaxrank.measures.measure import Measure as Measure
from jaxrank.measures.measure import evaluate as evaluate
from jaxrank.measures.measure import parse as parse
from jaxrank.measures.measure import resolve_metrics as resolve_metrics
